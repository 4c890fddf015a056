"""The records in the folder of a run, side by side for every task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from activations_cache import ActivationsCache
from experiments.asked import asked_of
from experiments.behavior import Behavior
from experiments.config import RunConfig
from experiments.elicitation import SelfPrediction
from experiments.items import item_from_row
from experiments.other_contexts import ContextRecords
from experiments.records import read_rows
from experiments.run_folder import RunFolder
from experiments.task_data import TaskData
from experiments.tasks import Item, Task


@contextmanager
def joined_tasks(
    folder: RunFolder, config: RunConfig, tasks: Sequence[Task]
) -> Iterator[list[TaskData]]:
    """Every task's scored items with what the model did, said and held in its states, while the caches are open.

    Args:
        folder: of a run whose items, behavior, activations and self-predictions are collected.
        config: its settings.
        tasks: of the run.
    """
    items = [item_from_row(row) for row in read_rows(folder.items)]
    behavior = [Behavior.from_row(row) for row in read_rows(folder.behavior)]
    reports = [SelfPrediction(**row) for row in read_rows(folder.self_predictions)]
    asked = {task: asked_of(task, config) for task in tasks}
    apart = dict.fromkeys(name for questions in asked.values() for name in questions.apart)
    said = [SelfPrediction(**row) for row in read_rows(folder.other_contexts)] if apart else []
    with ExitStack() as stack:

        def opened(path: Path) -> ActivationsCache:
            return stack.enter_context(ActivationsCache.open(path))

        task_cache, report_cache = opened(folder.task_cache), opened(folder.report_cache)

        def of_task(task: Task) -> list[Item]:
            return [item for item in items if item.task == task.name]

        own = ContextRecords(reports, report_cache)
        records = {name: ContextRecords(said, opened(folder.context_cache(name))) for name in apart}
        yield [
            TaskData.join(
                task,
                of_task(task),
                behavior,
                reports,
                questions,
                task_cache,
                report_cache,
                config.probed_spec(),
                {
                    name: held
                    for name, asked in questions.contexts.items()
                    if (held := records.get(name, own)).holds(asked, of_task(task))
                },
            )
            for task, questions in asked.items()
        ]

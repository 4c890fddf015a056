"""The stages of a run, in order: each writes its part whole and is then marked finished."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property

from activations_cache import ActivationsCache
from experiments.asked import (
    asked_of,
    asked_prompts,
    check_drafts,
    check_groups,
    check_prompts,
    choose_items,
    samples_of,
)
from experiments.baselines import read_output_side
from experiments.behavior import Behavior, LocalRunner, label_behavior
from experiments.captures import capture_into
from experiments.config import RunConfig
from experiments.contrast import contrast
from experiments.controls import (
    capture_random_weights,
    collect_peer,
    load_peer,
    open_controls,
)
from experiments.directions import directions_of_run
from experiments.elicitation import (
    Options,
    Questions,
    SelfPrediction,
    generate_answers,
    option_spellings,
    read_reports,
)
from experiments.finished import load_run, write_results
from experiments.items import item_from_row
from experiments.progress import Reporter
from experiments.records import read_rows, write_json, write_rows
from experiments.run_folder import RunFolder
from experiments.task_data import TaskData
from experiments.tasks import TASKS, Elicitation, Item, Task, ValueQuestion
from hooks import Model, NextToken, Prompt, load_model


class RunError(RuntimeError):
    """A stage failed at work, after every check of what was asked had passed; finished stages are kept."""


class Stages:
    """The stages of a run that is not finished, in order.

    Args:
        config: what was asked.
        folder: where the stages leave their parts.
        reporter: shows how far a stage is.
        load: from a model's name and dtype to the model; `load_model` by default.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        reporter: Reporter,
        load: Callable[[str, str], Model] | None = None,
    ) -> None:
        self.config = config
        self.folder = folder
        self.reporter = reporter
        self.load = load or (lambda name, dtype: load_model(name, dtype=dtype))
        self.tasks: list[Task] = [TASKS[name]() for name in config.tasks]

    def run(self, stages: Sequence[str]) -> None:
        """Do those of `stages` that are not finished."""
        chosen = {task.name: choose_items(task, self.config) for task in self.tasks}
        if "contrast" in stages:
            check_groups(chosen, self.config)
        ready = {task: chosen[task.name] for task in self.tasks if not task.makes_items}
        drafts = {task: chosen[task.name] for task in self.tasks if task.makes_items}
        check_drafts(self.model, drafts, self.config)
        if ready:
            check_prompts(self.model, ready, self.config)
        if "peer" in stages and not self.folder.is_finished("peer"):
            peer = load_peer(self.config, self._by_task(chosen))
            if peer.fingerprint["weights"] == self.model.fingerprint["weights"]:
                raise ValueError(
                    f"peer: {self.config.peer!r} has the weights of the model itself; name another model"
                )
        self.folder.claim(self.config)
        try:
            self.folder.note_model(self.model.fingerprint, self.config.seed)
            work: dict[str, Callable[[], None]] = {
                "items": lambda: self._write_items(chosen),
                "behavior": self._label_behavior,
                "task activations": self._capture_task,
                "self-predictions": self._ask,
                "output side": self._read_output_side,
                "random weights": self._capture_random_weights,
                "peer": self._read_with_peer,
                "contrast": self._contrast,
                "directions": self._directions,
                "report": self._report,
            }
            todo = self.folder.stages(self.config)
            while todo and self.folder.is_finished(todo[0]):
                todo.pop(0)
            self.folder.forget(todo)
            for stage in todo:
                if stage in stages:
                    self._do(stage, work[stage])
            self.folder.error_log.unlink(missing_ok=True)
        finally:
            self.folder.lock.release()

    def _do(self, stage: str, work: Callable[[], None]) -> None:
        start = time.monotonic()
        try:
            work()
        except Exception as error:
            self.folder.error_log.write_text(traceback.format_exc(), encoding="utf-8")
            raise RunError(
                f"{stage}: {error} (details in {self.folder.error_log}); what is finished is kept, "
                "the same command picks it up"
            ) from error
        self.folder.mark_finished(stage, time.monotonic() - start)

    def _write_items(self, chosen: dict[str, list[Item]]) -> None:
        made = {task: self._made(task, chosen[task.name]) for task in self.tasks}
        check_prompts(self.model, made, self.config)
        write_rows(self.folder.items, (item.to_json() for items in made.values() for item in items))

    def _made(self, task: Task, drafts: list[Item]) -> list[Item]:
        if not task.makes_items:
            return drafts
        run = self._runner(task, f"{task.name}: making items")
        return task.make_items(drafts, self.config.n, run)

    def _runner(self, task: Task, stage: str) -> LocalRunner:
        return LocalRunner(
            self.model,
            samples=samples_of(task, self.config),
            seed=self.config.seed,
            store=self.folder.completions,
            reporter=self.reporter,
            stage=stage,
        )

    @cached_property
    def model(self) -> Model:
        """The model of the run, loaded when it is first needed."""
        return self.load(self.config.model, self.config.dtype)

    @cached_property
    def items(self) -> dict[str, list[Item]]:
        """The items in the folder, by task."""
        items = [item_from_row(row) for row in read_rows(self.folder.items)]
        return {
            task.name: [item for item in items if item.task == task.name] for task in self.tasks
        }

    def _questions(self, task: Task) -> Questions:
        return asked_of(task, self.config)

    def _label_behavior(self) -> None:
        rows = [
            row
            for task in self.tasks
            for row in label_behavior(
                self._runner(task, f"{task.name}: behavior"), task, self.items[task.name]
            )
        ]
        write_rows(self.folder.behavior, (row.to_json() for row in rows))
        self.folder.completions.unlink(missing_ok=True)

    def _capture_task(self) -> None:
        prompts = [item.prompt() for items in self.items.values() for item in items]
        capture_into(
            self.folder.task_cache,
            self.model,
            prompts,
            self.config.task_spec(),
            reporter=self.reporter,
            stage="task activations",
        )

    def _ask(self) -> None:
        asked = {task: self._questions(task) for task in self.tasks}
        cache = capture_into(
            self.folder.report_cache,
            self.model,
            [
                prompt
                for task, questions in asked.items()
                for question in questions.options
                for prompt in asked_prompts(question, self.items[task.name], self.config)
            ],
            self.config.report_spec(),
            reporter=self.reporter,
            stage="self-predictions",
            options=option_spellings([e for each in asked.values() for e in each.options]),
        )
        rows: list[SelfPrediction] = []
        for task, questions in asked.items():
            items = self.items[task.name]
            run = self._runner(task, f"{task.name}: answers in words")
            prompts = {
                question: asked_prompts(question, items, self.config)
                for _, question in questions.answered
            }
            answers = generate_answers(run, prompts)
            logprobs = _options_reader(run, cache, questions, prompts)
            rows += read_reports(items, questions, logprobs, answers)
        write_rows(self.folder.self_predictions, (row.to_json() for row in rows))
        self.folder.completions.unlink(missing_ok=True)

    def _read_output_side(self) -> None:
        partial = self.folder.output_side.with_suffix(".partial.jsonl")
        rows: list[NextToken] = []
        for task in self.tasks:
            items = self.items[task.name]
            with self.reporter.stage(f"{task.name}: output side", len(items)) as advance:
                rows += read_output_side(self.model, task, items, partial=partial, advance=advance)
        write_rows(self.folder.output_side, (asdict(row) for row in rows))
        partial.unlink(missing_ok=True)

    def _capture_random_weights(self) -> None:
        prompts = [item.prompt() for items in self.items.values() for item in items]
        capture_random_weights(
            self.folder.random_cache, self.model, prompts, self.config, self.reporter
        )

    def _read_with_peer(self) -> None:
        collect_peer(self.folder, self.config, self._by_task(self.items), self.reporter)

    def _by_task(self, items: dict[str, list[Item]]) -> dict[Task, list[Item]]:
        return {task: items[task.name] for task in self.tasks}

    @contextmanager
    def _joined(self) -> Iterator[list[TaskData]]:
        """The records of every task side by side, while the caches are open."""
        behavior = [Behavior.from_row(row) for row in read_rows(self.folder.behavior)]
        reports = [SelfPrediction(**row) for row in read_rows(self.folder.self_predictions)]
        with (
            ActivationsCache.open(self.folder.task_cache) as task_cache,
            ActivationsCache.open(self.folder.report_cache) as report_cache,
        ):
            yield [
                TaskData.join(
                    task,
                    self.items[task.name],
                    behavior,
                    reports,
                    self._questions(task),
                    task_cache,
                    report_cache,
                    self.config.probed_spec(),
                )
                for task in self.tasks
            ]

    def _contrast(self) -> None:
        with self._joined() as joined, open_controls(self.config, self.folder) as records:
            contrasts = [contrast(data, records, self.config, self.reporter) for data in joined]
        write_results(self.folder, self.config, contrasts)

    def _directions(self) -> None:
        results = self.folder.read_results()["tasks"]
        with self._joined() as joined:
            found = directions_of_run(joined, results, self.config, self.reporter)
        write_json(self.folder.directions, found)

    def _report(self) -> None:
        with self.reporter.stage("report", 1) as advance:
            load_run(self.folder.path).write_report()
            advance(1)


def _options_reader(
    run: LocalRunner,
    cache: ActivationsCache,
    questions: Questions,
    prompts: Mapping[Elicitation | ValueQuestion, Sequence[Prompt]],
) -> Callable[[Elicitation], Options]:
    """Log-probabilities of options: those captured with the activations, where there are any."""

    def read(question: Elicitation) -> Options:
        words = (question.yes, question.no)
        if question in questions.options:
            ids = [prompt.id for prompt in prompts[question]]
            yes, no = (cache.read_options(word, ids) for word in words)
        else:
            found = run.option_logprobs(prompts[question], option_spellings([question]))
            yes, no = (found[word] for word in words)
        return yes, no

    return read

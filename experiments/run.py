"""The main job: from a model and a task to a run folder, stage by stage.

Each stage writes its part whole and is then marked finished; a run that was killed picks up at the first
stage that is not, and ends with the same bytes.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from activations_cache import ActivationsCache
from experiments.baselines import read_output_side
from experiments.behavior import Behavior, label_behavior
from experiments.captures import capture_into
from experiments.config import RunConfig, make_config
from experiments.contrast import contrast
from experiments.controls import (
    capture_random_weights,
    collect_peer,
    load_peer,
    open_controls,
)
from experiments.directions import directions_of_run
from experiments.elicitation import (
    ANSWER_TOKENS,
    SelfPrediction,
    generate_answers,
    option_spellings,
    read_reports,
)
from experiments.finished import Run, load_run, write_results
from experiments.items import first_groups, item_from_row, load_items
from experiments.progress import Reporter, Silent
from experiments.records import read_json, read_rows, write_json, write_rows
from experiments.report import write_direction_figures, write_figures, write_page
from experiments.run_folder import COLLECTED, RunFolder
from experiments.task_data import TaskData
from experiments.tasks import TASKS, Elicitation, Item, Task
from hooks import Model, NextToken, Prompt, check_lengths, load_model, plan_capture


class RunError(RuntimeError):
    """A stage failed at work, after every check of what was asked had passed; finished stages are kept."""


class Experiment:
    """One model, one or several tasks, one folder.

    Example:
        >>> run = Experiment(model="smollm2-135m", task="refusal").run("runs/demo")  # doctest: +SKIP
        >>> run.breakdown().stage  # doctest: +SKIP

    Raises:
        ValueError: a setting that is unknown or out of range, named in one line.
    """

    def __init__(
        self,
        task: str | Sequence[str],
        model: str = "smollm2-135m",
        *,
        preset: str | None = None,
        **settings: Any,
    ) -> None:
        tasks = (task,) if isinstance(task, str) else task
        self.config = make_config({"tasks": tasks, "model": model, **settings}, preset=preset)

    @classmethod
    def from_config(cls, config: RunConfig) -> Experiment:
        """The experiment that `config` describes."""
        experiment = cls.__new__(cls)
        experiment.config = config
        return experiment

    def run(self, out: str | Path, *, reporter: Reporter | None = None) -> Run:
        """Do what is not yet done in the folder `out`, and read the run back.

        Raises:
            ValueError: anything wrong with the folder, the model or the items; nothing is written then.
            RunError: a stage failed; the same call picks up what is finished.
        """
        folder = RunFolder(Path(out))
        folder.check(self.config)
        stages = folder.stages(self.config)
        if not all(folder.is_finished(stage) for stage in stages):
            _Stages(self.config, folder, reporter or Silent()).run(stages)
        return load_run(folder.path)

    def collect(
        self,
        out: str | Path,
        *,
        reporter: Reporter | None = None,
        load: Callable[[str, str], Model] | None = None,
        wait_s: float = 0.0,
    ) -> None:
        """Do the stages of `COLLECTED` alone: behavior, activations, self-predictions, without any analysis.

        Args:
            out: the folder.
            reporter: shows how far it is.
            load: from a model's name and dtype to the model, for a caller that keeps models loaded.
            wait_s: how long to wait for another process that is at work in the folder.

        Raises:
            ValueError, RunError: as `run`.
        """
        folder = RunFolder(Path(out))
        folder.check(self.config)
        folder.lock.timeout = wait_s
        _Stages(self.config, folder, reporter or Silent(), load).run(COLLECTED)


class _Stages:
    """The stages of a run that is not finished, in order."""

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
        chosen = {task.name: self._choose_items(task) for task in self.tasks}
        if "contrast" in stages:
            self._check_groups(chosen)
        self._check(chosen)
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
        write_rows(
            self.folder.items, (item.to_json() for items in chosen.values() for item in items)
        )

    @cached_property
    def model(self) -> Model:
        return self.load(self.config.model, self.config.dtype)

    @cached_property
    def items(self) -> dict[str, list[Item]]:
        items = [item_from_row(row) for row in read_rows(self.folder.items)]
        return {
            task.name: [item for item in items if item.task == task.name] for task in self.tasks
        }

    def _choose_items(self, task: Task) -> list[Item]:
        if self.config.items is not None:
            items = load_items(self.config.items, task.name, needs_answers=task.needs_answers)
        else:
            items = task.items()
        return items if self.config.n is None else first_groups(items, self.config.n)

    def _elicitations(self, task: Task) -> tuple[Elicitation, ...]:
        return task.elicitations[: 2 * self.config.paraphrases]

    def _check_groups(self, chosen: dict[str, list[Item]]) -> None:
        for name, items in chosen.items():
            n_groups = len({item.group for item in items})
            if n_groups < self.config.folds:
                raise ValueError(
                    f"items: {n_groups} groups for task {name!r}, but {self.config.folds} folds "
                    "need at least as many; give more groups"
                )

    def _check(self, chosen: dict[str, list[Item]]) -> None:
        """Refuse before anything is written what would fail in the middle of the work."""
        prompts: list[Prompt] = []
        reports: list[Prompt] = []
        for task in self.tasks:
            items = chosen[task.name]
            own = [item.prompt() for item in items]
            asked = [e.prompt(item) for item in items for e in self._elicitations(task)]
            check_lengths(self.model, own, task.max_new_tokens)
            check_lengths(self.model, asked, ANSWER_TOKENS)
            prompts += own
            reports += asked
        options = option_spellings([e for task in self.tasks for e in self._elicitations(task)])
        plan_capture(self.model, prompts, self.config.task_spec())
        plan_capture(self.model, reports, self.config.report_spec(), options=options)
        if self.config.peer is not None and not self.folder.is_finished("peer"):
            load_peer(self.config, self._by_task(chosen))

    def _label_behavior(self) -> None:
        partial = self.folder.behavior.with_suffix(".partial.jsonl")
        rows: list[Behavior] = []
        for task in self.tasks:
            items = self.items[task.name]
            with self.reporter.stage(f"{task.name}: behavior", len(items)) as advance:
                rows += label_behavior(
                    self.model,
                    task,
                    items,
                    samples=self.config.samples,
                    seed=self.config.seed,
                    partial=partial,
                    advance=advance,
                )
        write_rows(self.folder.behavior, (row.to_json() for row in rows))
        partial.unlink(missing_ok=True)

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
        asked = {task.name: self._elicitations(task) for task in self.tasks}
        prompts = [
            elicitation.prompt(item)
            for task in self.tasks
            for item in self.items[task.name]
            for elicitation in asked[task.name]
        ]
        cache = capture_into(
            self.folder.report_cache,
            self.model,
            prompts,
            self.config.report_spec(),
            reporter=self.reporter,
            stage="self-predictions",
            options=option_spellings([e for es in asked.values() for e in es]),
        )
        rows: list[SelfPrediction] = []
        for name, elicitations in asked.items():
            items = self.items[name]
            with self.reporter.stage(f"{name}: answers in words", len(items)) as advance:
                answers = generate_answers(self.model, items, elicitations[0], advance=advance)
            rows += read_reports(items, elicitations, cache, answers)
        write_rows(self.folder.self_predictions, (row.to_json() for row in rows))

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
                    self._elicitations(task),
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
        run = load_run(self.folder.path)
        with self.reporter.stage("report", 1) as advance:
            figures = write_figures(run.results, run.scores, self.folder.figures)
            directions = read_json(self.folder.directions, "run the same command again")
            for name, paths in write_direction_figures(directions, self.folder.figures).items():
                figures[name] |= paths
            write_page(run.results, run.scores, figures, self.folder.page, directions=directions)
            advance(1)

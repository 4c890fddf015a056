"""A run in stages, whatever answers it: each stage writes its part whole and is then marked finished."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from experiments.asked import asked_of, asked_prompts, check_groups, choose_items
from experiments.behavior import label_behavior
from experiments.config import RunConfig
from experiments.elicitation import Options, Questions, generate_answers, read_reports
from experiments.finished import load_run
from experiments.items import item_from_row
from experiments.progress import Reporter
from experiments.records import read_rows, write_rows
from experiments.run_folder import RunFolder
from experiments.runnable import RUNNABLE
from experiments.tasks import Elicitation, Item, NoItemsError, Runner, Task, ValueQuestion
from hooks import Prompt

Prompts = Mapping[Elicitation | ValueQuestion, Sequence[Prompt]]
"""Every question put to every item."""
OptionsOf = Callable[[Runner, Questions, Prompts], Callable[[Elicitation], Options] | None]
"""From a runner that has answered to what reads the log-probabilities of a question's options, if anything does."""


class RunError(RuntimeError):
    """A stage failed at work, after every check of what was asked had passed; finished stages are kept."""


class StagedRun(ABC):
    """The stages of a run that is not finished, in order.

    Args:
        config: what was asked.
        folder: where the stages leave their parts.
        reporter: shows how far a stage is.
    """

    def __init__(self, config: RunConfig, folder: RunFolder, reporter: Reporter) -> None:
        self.config = config
        self.folder = folder
        self.reporter = reporter
        self.tasks: list[Task] = [RUNNABLE[name]() for name in config.tasks]

    @abstractmethod
    def check(self, chosen: Mapping[str, list[Item]], stages: Sequence[str]) -> None:
        """Refuse what would fail in the middle of the work; nothing is written yet.

        Raises:
            ValueError: what was asked cannot be done, in one line.
        """

    @abstractmethod
    def check_made(self, made: Mapping[Task, Sequence[Item]]) -> None:
        """The same of items that the model had its part in."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, Any]:
        """What tells the model from any other."""

    @abstractmethod
    def runner(self, task: Task, stage: str) -> Runner:
        """What answers the prompts of a task, and shows how far it is under the name `stage`."""

    @abstractmethod
    def work(self) -> Mapping[str, Callable[[], None]]:
        """Stage -> its work, for the stages behind `items` and before `report`."""

    def run(self, stages: Sequence[str]) -> None:
        """Do those of `stages` that are not finished."""
        chosen = {task.name: choose_items(task, self.config) for task in self.tasks}
        if "contrast" in stages:
            check_groups(chosen, self.config)
        self.check(chosen, stages)
        self.folder.claim(self.config)
        try:
            self.folder.note_model(self.fingerprint(), self.config.seed)
            work: dict[str, Callable[[], None]] = {
                "items": lambda: self._write_items(chosen),
                **self.work(),
                "report": self._report,
            }
            todo = self.folder.unfinished(self.config)
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

    def _write_items(self, chosen: Mapping[str, list[Item]]) -> None:
        made = {task: self._made(task, chosen[task.name]) for task in self.tasks}
        self.check_made(made)
        write_rows(self.folder.items, (item.to_json() for items in made.values() for item in items))

    def _made(self, task: Task, drafts: list[Item]) -> list[Item]:
        if not task.makes_items:
            return drafts
        run = self.runner(task, f"{task.name}: making items")
        try:
            return task.make_items(drafts, self.config.n, run)
        except NoItemsError as error:
            others = "; leave it out for the other tasks" if len(self.tasks) > 1 else ""
            raise NoItemsError(f"{task.name}: {error}{others}") from None

    @cached_property
    def items(self) -> dict[str, list[Item]]:
        """The items in the folder, by task."""
        items = [item_from_row(row) for row in read_rows(self.folder.items)]
        return {
            task.name: [item for item in items if item.task == task.name] for task in self.tasks
        }

    def questions(self, task: Task) -> Questions:
        """What the run asks about every item of a task."""
        return asked_of(task, self.config)

    def label_behavior(self) -> None:
        """Let the model act on every item, and write down what it did."""
        rows = [
            row
            for task in self.tasks
            for row in label_behavior(
                self.runner(task, f"{task.name}: behavior"), task, self.items[task.name]
            )
        ]
        write_rows(self.folder.behavior, (row.to_json() for row in rows))
        self.folder.completions.unlink(missing_ok=True)

    def ask_in_words(self, options_of: OptionsOf) -> None:
        """Put every question about every item, and write down the answers with the log-odds of their options."""
        rows = []
        for task in self.tasks:
            items, questions = self.items[task.name], self.questions(task)
            run = self.runner(task, f"{task.name}: answers in words")
            prompts = {
                question: asked_prompts(question, items, self.config)
                for _, question in questions.all
            }
            answers = generate_answers(
                run, {question: prompts[question] for question in questions.answered}
            )
            rows += read_reports(items, questions, options_of(run, questions, prompts), answers)
        write_rows(self.folder.self_predictions, (row.to_json() for row in rows))
        self.folder.completions.unlink(missing_ok=True)

    def _report(self) -> None:
        with self.reporter.stage("report", 1) as advance:
            load_run(self.folder.path).write_report()
            advance(1)

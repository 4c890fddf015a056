"""The stages of a run on a model in this process: what it does, what is read in it, and what that amounts to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any

from activations_cache import ActivationsCache
from experiments.asked import asked_prompts, check_drafts, check_prompts, samples_of
from experiments.baselines import read_output_side
from experiments.behavior import LocalRunner
from experiments.captures import capture_into
from experiments.config import RunConfig
from experiments.contrast import contrast
from experiments.controls import (
    ask_peer,
    capture_random_weights,
    collect_peer,
    load_peer,
    open_controls,
)
from experiments.directions import directions_of_run
from experiments.elicitation import ANSWER_TOKENS, Options, Questions, option_spellings
from experiments.finished import write_results
from experiments.joined import joined_tasks
from experiments.locate import locate_task, n_steps
from experiments.other_contexts import ask_in_other_contexts
from experiments.progress import Reporter
from experiments.records import read_json, write_json, write_rows
from experiments.run_folder import RunFolder
from experiments.staged import Prompts, StagedRun
from experiments.task_data import TaskData
from experiments.tasks import Elicitation, Item, Runner, Task
from hooks import Kept, Model, NextToken, Prompt, load_model


class Stages(StagedRun):
    """The stages of a run on a model in this process.

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
        super().__init__(config, folder, reporter)
        self.load = load or (lambda name, dtype: load_model(name, dtype=dtype))

    @cached_property
    def model(self) -> Model:
        """The model of the run, loaded when it is first needed."""
        return self.load(self.config.model, self.config.dtype)

    def fingerprint(self) -> Mapping[str, Any]:
        """The model's own."""
        return self.model.fingerprint

    def check(self, chosen: Mapping[str, list[Item]], stages: Sequence[str]) -> None:
        """Lengths, sites, layers, positions and options of what is known; a peer that is not the model itself."""
        ready = {task: chosen[task.name] for task in self.tasks if not task.makes_items}
        drafts = {task: chosen[task.name] for task in self.tasks if task.makes_items}
        check_drafts(self.model, drafts, self.config)
        if ready:
            check_prompts(self.model, ready, self.config)
        of_peer = [stage for stage in ("peer", "peer words") if stage in stages]
        if not all(map(self.folder.is_finished, of_peer)):
            peer = load_peer(self.config, self._by_task(chosen))
            if peer.fingerprint["weights"] == self.model.fingerprint["weights"]:
                raise ValueError(
                    f"peer: {self.config.peer!r} has the weights of the model itself; name another model"
                )

    def check_made(self, made: Mapping[Task, Sequence[Item]]) -> None:
        """The same of items that are made; the others were checked before."""
        new = {task: items for task, items in made.items() if task.makes_items}
        if new:
            check_prompts(self.model, new, self.config)

    def runner(self, task: Task, stage: str) -> LocalRunner:
        """The model, which keeps its completions until the stage is finished."""
        return LocalRunner(
            self.model,
            samples=samples_of(task, self.config),
            seed=self.config.seed,
            store=self.folder.completions,
            reporter=self.reporter,
            stage=stage,
        )

    def work(self) -> Mapping[str, Callable[[], None]]:
        """Behavior, activations, questions, controls, and what they amount to."""
        return {
            "behavior": self.label_behavior,
            "task activations": self._capture_task,
            "self-predictions": self._ask,
            "other contexts": self._ask_in_other_contexts,
            "output side": self._read_output_side,
            "random weights": self._capture_random_weights,
            "peer": self._read_with_peer,
            "peer words": self._ask_peer,
            "contrast": self._contrast,
            "directions": self._directions,
            "locate": self._locate,
        }

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
        questions = {task: self.questions(task) for task in self.tasks}
        prompts: list[Prompt] = []
        answered: dict[str, Prompt] = {}
        for task, own in questions.items():
            for question in own.captured:
                asked = asked_prompts(question, self.items[task.name], self.config)
                prompts += asked
                if question in own.answered:
                    answered |= {prompt.id: prompt for prompt in asked}
        run = LocalRunner(self.model, seed=self.config.seed, store=self.folder.completions)
        cache = capture_into(
            self.folder.report_cache,
            self.model,
            prompts,
            self.config.report_spec(),
            reporter=self.reporter,
            stage="self-predictions",
            on_read=partial(_answer, run, answered),
            options=option_spellings([e for own in questions.values() for e in own.options]),
        )
        self.ask_in_words(partial(_captured_options, cache))

    def _ask_in_other_contexts(self) -> None:
        items = self._by_task(self.items)
        ask_in_other_contexts(self.folder, self.config, self.model, items, self.reporter)

    def _read_output_side(self) -> None:
        unfinished = self.folder.output_side.with_suffix(".partial.jsonl")
        rows: list[NextToken] = []
        for task in self.tasks:
            items = self.items[task.name]
            with self.reporter.stage(f"{task.name}: output side", len(items)) as advance:
                rows += read_output_side(
                    self.model, task, items, partial=unfinished, advance=advance
                )
        write_rows(self.folder.output_side, (asdict(row) for row in rows))
        unfinished.unlink(missing_ok=True)

    def _capture_random_weights(self) -> None:
        prompts = [item.prompt() for items in self.items.values() for item in items]
        capture_random_weights(
            self.folder.random_cache, self.model, prompts, self.config, self.reporter
        )

    @cached_property
    def peer(self) -> Model:
        """The peer of the run, loaded when it is first needed and let go when it has been asked."""
        return load_peer(self.config, self._by_task(self.items))

    def _read_with_peer(self) -> None:
        items = self._by_task(self.items)
        collect_peer(self.folder, self.config, self.peer, items, self.reporter)

    def _ask_peer(self) -> None:
        items = self._by_task(self.items)
        ask_peer(self.folder, self.config, self.peer, items, self.reporter)
        del self.peer

    def _by_task(self, items: Mapping[str, list[Item]]) -> dict[Task, list[Item]]:
        return {task: items[task.name] for task in self.tasks}

    def _joined(self) -> AbstractContextManager[list[TaskData]]:
        return joined_tasks(self.folder, self.config, self.tasks)

    def _contrast(self) -> None:
        with self._joined() as joined, open_controls(self.config, self.folder) as records:
            contrasts = [contrast(data, records, self.config, self.reporter) for data in joined]
        about = {"prompt_format": self.model.prompt_format}
        write_results(self.folder, self.config, contrasts, about)

    def _directions(self) -> None:
        results = self.folder.read_results()["tasks"]
        with self._joined() as joined:
            found = directions_of_run(joined, results, self.config, self.reporter)
        write_json(self.folder.directions, found)

    def _locate(self) -> None:
        results = self.folder.read_results()["tasks"]
        moved = read_json(self.folder.directions, "delete it")["tasks"]
        found = {}
        with self._joined() as joined:
            for data in joined:
                name = data.task.name
                if results[name]["skipped"]:
                    continue
                with self.reporter.stage(f"{name}: locate", n_steps(data)) as advance:
                    located = locate_task(
                        data,
                        results[name],
                        moved[name]["contexts"],
                        self.config,
                        self.model,
                        advance,
                    )
                found[name] = located.to_json()
        write_json(self.folder.located, {"tasks": found})


def _answer(run: LocalRunner, answered: Mapping[str, Prompt], kept: Kept) -> None:
    """Answer in words what has just been read, so that `ask_in_words` need not read it again."""
    read = [answered[one.id] for one in kept.batch.prompts if one.id in answered]
    if read:
        run.complete_read(read, ANSWER_TOKENS, kept)


def _captured_options(
    cache: ActivationsCache, run: Runner, questions: Questions, prompts: Prompts
) -> Callable[[Elicitation], Options]:
    """Log-probabilities of options as they were captured with the activations."""

    def read(question: Elicitation) -> Options:
        ids = [prompt.id for prompt in prompts[question]]
        return cache.read_options(question.yes, ids), cache.read_options(question.no, ids)

    return read

"""The stages of a run on an endpoint: behavior and self-predictions in words, held against the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.asked import samples_of
from experiments.behavior import Behavior
from experiments.config import RunConfig
from experiments.elicitation import Options, Questions, SelfPrediction, option_spellings
from experiments.endpoint.book import AnswerBook
from experiments.endpoint.connect import connect
from experiments.endpoint.contrast import contrast_words
from experiments.endpoint.faults import EndpointError
from experiments.endpoint.runner import EndpointRunner
from experiments.finished import write_results
from experiments.progress import Reporter
from experiments.records import read_rows, write_json
from experiments.run_folder import RunFolder
from experiments.staged import Prompts, StagedRun
from experiments.task_data import WordData
from experiments.tasks import Elicitation, Item, Runner, Task

if TYPE_CHECKING:
    from experiments.endpoint.client import EndpointClient

ASKING = ("items", "behavior", "self-predictions")
"""The stages that may send requests."""


class EndpointFolder(RunFolder):
    """The folder of a run on an endpoint: no caches and no probes, but every answer."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.answers = path / "endpoint_answers.jsonl"
        self.outputs = {
            "items": (self.items,),
            "behavior": (self.behavior,),
            "self-predictions": (self.self_predictions,),
            "contrast": (self.results, self.table, self.scores),
            "report": (self.page,),
        }


class EndpointStages(StagedRun):
    """The stages of a run on the endpoint that `config` names."""

    folder: EndpointFolder

    def __init__(self, config: RunConfig, folder: EndpointFolder, reporter: Reporter) -> None:
        super().__init__(config, folder, reporter)
        assert config.endpoint is not None
        self.url = config.endpoint

    @cached_property
    def client(self) -> EndpointClient:
        """The endpoint's client; it has not asked yet."""
        return connect(self.url, self.config.model, self.config.requests_per_minute)

    @cached_property
    def book(self) -> AnswerBook:
        """What was answered so far."""
        return AnswerBook(self.folder.answers, self.client)

    def check(self, chosen: Mapping[str, list[Item]], stages: Sequence[str]) -> None:
        """One short question, if any is to be asked: a wrong URL, key or model is found before anything is written."""
        if all(self.folder.is_finished(stage) for stage in ASKING):
            return
        answer = self.client.check()
        lost = [task.name for task in self.tasks if task.needs_logprobs]
        if answer.first_token is None and lost:
            raise EndpointError(
                f"endpoint {self.url}: gives no log-probabilities of first tokens, from which the outcome of "
                f"{', '.join(lost)} is read; give another endpoint, or other tasks"
            )

    def check_made(self, made: Mapping[Task, Sequence[Item]]) -> None:
        """Every question about them can be worded."""
        for task, items in made.items():
            for _, question in self.questions(task).all:
                for item in items:
                    question.prompt(item, answer_revealed=self.config.answer_revealed)

    def fingerprint(self) -> Mapping[str, Any]:
        """URL and name: an endpoint shows no weights."""
        return {"endpoint": self.url, "name": self.config.model}

    def runner(self, task: Task, stage: str) -> Runner:
        """The endpoint, which keeps every answer."""
        return EndpointRunner(
            self.book,
            samples=samples_of(task, self.config),
            seed=self.config.seed,
            reporter=self.reporter,
            stage=stage,
        )

    def work(self) -> Mapping[str, Callable[[], None]]:
        """Behavior, self-predictions, and what they amount to."""
        return {
            "behavior": self.label_behavior,
            "self-predictions": self._ask,
            "contrast": self._contrast,
        }

    def _ask(self) -> None:
        self.ask_in_words(_options_reader)
        manifest = self.folder.read_manifest()
        manifest["answered"] = {
            "served_by": self.book.served_by,
            "requests": len(self.book),
            "left_out": self.client.dialect.left_out,
        }
        write_json(self.folder.manifest, manifest)

    def _contrast(self) -> None:
        behavior = [Behavior.from_row(row) for row in read_rows(self.folder.behavior)]
        reports = [SelfPrediction(**row) for row in read_rows(self.folder.self_predictions)]
        contrasts = [
            contrast_words(
                WordData.of(task, self.items[task.name], behavior, reports, self.questions(task)),
                self.config,
                self.reporter,
            )
            for task in self.tasks
        ]
        answered = self.folder.read_manifest().get("answered", {})
        write_results(self.folder, self.config, contrasts, about={"answered": answered})


def _options_reader(
    run: Runner, questions: Questions, prompts: Prompts
) -> Callable[[Elicitation], Options] | None:
    """Log-probabilities of options, where the endpoint gives them with its answers."""
    assert isinstance(run, EndpointRunner)
    if not run.tells_options(prompts[questions.options[0]]):
        return None

    def read(question: Elicitation) -> Options:
        found = run.option_logprobs(prompts[question], option_spellings([question]))
        return found[question.yes], found[question.no]

    return read

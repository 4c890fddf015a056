"""What a run would put to a model, without a model: the prompts, and how many completions they cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from experiments.asked import asked_of, asked_prompts, choose_items, samples_of
from experiments.config import RunConfig
from experiments.elicitation import ANSWER_TOKENS
from experiments.runnable import RUNNABLE
from experiments.tasks import Decided, Item, Task
from hooks import Completion, Prompt


@dataclass
class Recorder:
    """A `Runner` that writes down what it is asked and answers with nothing.

    `asked` maps the content of a request to its prompt: equal requests count once, as they are put once.
    """

    samples: int
    asked: dict[str, Prompt] = field(default_factory=dict)
    n_completions: int = 0

    def complete(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int,
        decided: Sequence[Decided] | None = None,
        samples: int | None = None,
    ) -> list[tuple[Completion, ...]]:
        """Empty completions."""
        k = self.samples if samples is None else samples
        for prompt in prompts:
            key = json.dumps([prompt.messages, prompt.text, max_new_tokens, k])
            if key not in self.asked:
                self.asked[key] = prompt
                self.n_completions += k
        return [tuple(Completion(one.id, i, "", 0, True) for i in range(k)) for one in prompts]

    def option_logprobs(
        self, prompts: Sequence[Prompt], options: Mapping[str, Sequence[str]]
    ) -> dict[str, Float[np.ndarray, " prompt"]]:
        """All options alike."""
        self.complete(prompts, max_new_tokens=ANSWER_TOKENS, samples=1)
        return {name: np.full(len(prompts), -np.log(len(options))) for name in options}


@dataclass(frozen=True)
class DryRun:
    """What one task would put.

    Attributes:
        task: its name.
        n_items: items, or drafts of a task that makes its items with the model.
        behavior: prompts whose completions show the behavior.
        questions: prompts that ask for a prediction, item by item.
        apart: context -> prompts of which only log-odds and activations are read; an endpoint is put none.
        n_completions: of the behavior, all samples.
        whole: whether this is all; False where later prompts depend on the answers to earlier ones.
    """

    task: str
    n_items: int
    behavior: tuple[Prompt, ...]
    questions: tuple[Prompt, ...]
    apart: Mapping[str, tuple[Prompt, ...]]
    n_completions: int
    whole: bool

    @property
    def n_requests(self) -> int:
        """Completions and answers together."""
        return self.n_completions + len(self.questions)

    def summary(self) -> str:
        """How much it is, in one line."""
        line = (
            f"{self.task}: {self.n_items} items, {self.n_completions} completions of behavior, "
            f"{len(self.questions)} answers to questions"
        )
        for context, prompts in self.apart.items():
            line += f", {len(prompts)} prompts of the {context.replace('_', ' ')}"
        return line if self.whole else f"{line}, and more that depend on the answers"

    def to_json(self) -> dict[str, Any]:
        """Everything, for a program."""
        contexts = (
            ("behavior", self.behavior),
            ("self_prediction", self.questions),
            *self.apart.items(),
        )
        return {
            "task": self.task,
            "n_items": self.n_items,
            "n_completions": self.n_completions,
            "n_answers": len(self.questions),
            "whole": self.whole,
            "prompts": [
                {"context": context, "id": one.id, "messages": list(one.messages or ())}
                for context, prompts in contexts
                for one in prompts
            ],
        }

    def lines(self) -> Iterator[str]:
        """The summary, two prompts of the behavior and all questions about the first item, for a person."""
        yield self.summary()
        yield from _shown("behavior", self.behavior[:2], len(self.behavior))
        first = [one for one in self.questions if one.id.startswith(_item_of(self.questions))]
        yield from _shown("question", first, len(self.questions))


def dry_run(config: RunConfig) -> list[DryRun]:
    """What every task of a run would put.

    Raises:
        ValueError: as `choose_items`; an item lacks a field that a question names.
    """
    return [_dry_run(RUNNABLE[name](), config) for name in config.tasks]


def _dry_run(task: Task, config: RunConfig) -> DryRun:
    chosen = choose_items(task, config)
    run = Recorder(samples_of(task, config))
    items, whole = _observed(task, chosen, config, run)
    asked = asked_of(task, config)
    rows = zip(*(asked_prompts(question, items, config) for _, question in asked.all), strict=True)
    questions = {json.dumps(one.messages): one for row in rows for one in row}
    return DryRun(
        task.name,
        len(chosen),
        tuple(run.asked.values()),
        tuple(questions.values()),
        {
            context: tuple(p for one in own for p in asked_prompts(one, items, config))
            for context, own in asked.apart.items()
        },
        run.n_completions,
        whole=whole,
    )


def _observed(
    task: Task, chosen: Sequence[Item], config: RunConfig, run: Recorder
) -> tuple[Sequence[Item], bool]:
    """The items, and whether all is recorded that the behavior asks of the model: here its answers are empty."""
    try:
        items = task.make_items(chosen, config.n, run) if task.makes_items else chosen
        task.observe(items, run)
    except Exception:  # a task may rightly trip over answers that nobody gave
        return ([] if task.makes_items else chosen), False
    return items, not task.makes_items


def _item_of(prompts: Sequence[Prompt]) -> str:
    """What the ids of all questions about the first item begin with."""
    return prompts[0].id.partition("/")[0] + "/" if prompts else ""


def _shown(context: str, prompts: Iterable[Prompt], total: int) -> Iterator[str]:
    for number, prompt in enumerate(prompts, start=1):
        yield f"\n{context} {number} of {total} ({prompt.id})"
        for message in prompt.messages or ():
            yield f"{message['role']}: {message['content']}"

"""What a task is: items, what the model does with them, how it is asked to predict that.

A task is one question about the model's own coming behavior ("will I decline this?"). Its outcome is binary: 1 where
the event happened, 0 where it did not, None where no judge could tell. What a yes or no cannot say (which letter, how
many tokens) are its values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from experiments.tasks.item import Item
from experiments.tasks.runner import Decided, Runner
from experiments.tasks.wording import Elicitation, Event, ValueQuestion
from hooks import Completion


@dataclass(frozen=True)
class Judgment:
    """What a completion amounts to.

    `outcome` is 1, 0 or None (with the `reason` it could not be scored); `label` is the task's own finer name
    ("refuse", "partial", "comply"); `votes` holds each judge's label, for agreement.
    """

    outcome: int | None
    label: str
    votes: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Observation:
    """What the model did with one item.

    `judgments` are one a completion, or one a pair of completions where the outcome is about pairs; their mean is the
    rate of the event. `values` are the truths of the task's value questions, by name; one that is missing or None
    could not be told.
    """

    completions: tuple[Completion, ...]
    judgments: tuple[Judgment, ...]
    values: Mapping[str, Any] = field(default_factory=dict)


class NoItemsError(RuntimeError):
    """The model's answers give a task that makes its items none."""


class Task(ABC):
    """A task: subclass it, register it in `experiments.tasks`, and `selfprobe run NAME` works."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for `selfprobe tasks`."""
    behavior: ClassVar[str]
    """What outcome 1 means, as a verb phrase with the model as subject: "declines the request"."""
    family: ClassVar[str | None] = None
    """Tasks of a family are run together by its name."""
    max_new_tokens: ClassVar[int]
    """Most tokens of a completion in which the behavior shows."""
    min_samples: ClassVar[int] = 1
    """Completions a prompt that the outcome needs at least, whatever the run asks for."""
    needs_answers: ClassVar[bool] = False
    """Whether an item must carry reference answers."""
    needs_logprobs: ClassVar[bool] = False
    """Whether the outcome is read from the probabilities of first tokens, which not every endpoint gives."""
    makes_items: ClassVar[bool] = False
    """Whether the items need the model: `make_items` then turns the drafts of `items` into them."""
    outcome_is_right: ClassVar[bool] = False
    """Whether outcome 1 is that the answer to the item's own prompt is right, as the item's `answers` have it."""
    acts_elsewhere: ClassVar[str] = ""
    """Why the outcome does not show in what is said to the item's own prompt, in a clause; empty where it does."""
    openings: ClassVar[tuple[str, ...]] = ()
    """Words that an answer of outcome 1 tends to begin with; their odds as first token are a baseline."""
    event: ClassVar[Event]
    """Outcome 1 in words, for the questions that every task is asked."""
    elicitations: ClassVar[tuple[Elicitation, ...]]
    """The grid of `event` unless a task words its own; paraphrase-major, the orders of a paraphrase side by side."""
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = ()
    """Asked beside the event, each scored against the value of its name."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "event" in vars(cls) and "elicitations" not in vars(cls):
            cls.elicitations = cls.event.grid()

    @abstractmethod
    def items(self) -> list[Item]:
        """All built-in items, in a fixed order such that any prefix of whole groups is balanced over strata."""

    def read_items(self, path: Path) -> list[Item] | None:
        """Items in a file format of the task's own; None where the file is of the formats that all tasks take.

        Raises:
            ValueError: the file is of the task's own format and has a fault.
        """
        return None

    def adopt(self, items: Sequence[Item]) -> list[Item]:
        """A user's plain items as this task's own: with the fields that its questions name.

        Raises:
            ValueError: an item lacks what the task needs (choices, for example); names it.
        """
        return list(items)

    def make_items(self, drafts: Sequence[Item], n: int | None, run: Runner) -> list[Item]:
        """Items that need the model (a verified flip, its own answer), at most `n`; only where `makes_items` is set.

        Raises:
            NoItemsError: nothing that the model answers makes an item.
        """
        raise NotImplementedError(f"{self.name} makes its items without the model")

    @abstractmethod
    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Let the model act on every item and say what happened; never judged by the model under test itself."""


def never(text: str) -> bool:
    """Of a task whose labels take the whole completion."""
    return False


class CompletionTask(Task):
    """A task whose outcome shows in one completion of the item's own prompt."""

    @abstractmethod
    def judge(self, items: Sequence[Item], completions: Sequence[str]) -> list[Judgment]:
        """Judge one completion an item; pure."""

    def decided(self, item: Item) -> Decided:
        """Tells of a completion so far whether its label and values cannot change any more."""
        return never

    def values(self, item: Item, completions: Sequence[Completion]) -> Mapping[str, Any]:
        """The truths of the value questions, by name."""
        return {}

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Complete every item's prompt and judge each completion."""
        answered = run.complete(
            [item.prompt() for item in items],
            max_new_tokens=self.max_new_tokens,
            decided=[self.decided(item) for item in items],
        )
        flat = [(item, one) for item, own in zip(items, answered, strict=True) for one in own]
        judged = iter(self.judge([item for item, _ in flat], [one.text for _, one in flat]))
        return [
            Observation(own, tuple(next(judged) for _ in own), self.values(item, own))
            for item, own in zip(items, answered, strict=True)
        ]

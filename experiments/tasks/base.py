"""What a task is: items, how an outcome is read off a completion, how the model is asked to predict it.

A task is one question about the model's own coming behavior ("will I decline this?"). Its outcome is
binary for a completion: 1 where the behavior happened, 0 where it did not, None where no judge could tell.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from hooks import Message, Prompt


def conversation_text(messages: Sequence[Message]) -> str:
    """All that is read of a chat: a single message as it is, more of them with the role before each."""
    if len(messages) == 1:
        return messages[0]["content"]
    return "\n".join(f"{m['role']}: {m['content']}" for m in messages)


@dataclass(frozen=True)
class Item:
    """One prompt whose outcome is to be foretold.

    `group` is the connected component of everything the item shares with others (template, source,
    contrast pair, paraphrase); a group never straddles a split. `stratum` is a topic or label within which
    scores are also shown. `meta` holds what a second grouping may want, for example `entity`.
    """

    id: str
    task: str
    group: str
    stratum: str
    messages: tuple[Message, ...]
    answers: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All that the model reads of the item, for text baselines and for the quote in a self-prediction.

        A single user message as it is; a conversation with the role before each message.
        """
        return conversation_text(self.messages)

    def prompt(self) -> Prompt:
        """The item as the model reads it in the `task` context."""
        return Prompt(id=self.id, messages=self.messages)

    def to_json(self) -> dict[str, Any]:
        """The row of `items.jsonl`."""
        return asdict(self)


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
class Elicitation:
    """One way to ask the model for a prediction: a paraphrase in one option order.

    `template` is the user message, the quoted prompt first and the question last, so that the prompts of an item
    share a prefix that is computed once; it holds `{prompt}` exactly once. `yes` and `no` are the options
    (spelled as the model would write them) that predict outcome 1 and outcome 0.
    """

    name: str
    paraphrase: str
    order: str
    template: str
    yes: str
    no: str

    def prompt(self, item: Item) -> Prompt:
        """The self-prediction prompt of `item`: a fresh conversation that quotes its text."""
        before, after = self.template.split("{prompt}")
        return Prompt.chat(f"{item.id}/{self.name}", before + item.text + after, quote=item.text)

    def parse(self, answer: str) -> tuple[int | None, str]:
        """The predicted outcome in a generated answer, or None with the reason.

        An answer must name exactly one option. A word may be written in any case; a letter must be a capital or
        the whole answer, for "a" is also an article. Where the question spells out what a letter stands for
        ("A: right"), words after the letter must begin like that: "A: wrong" contradicts itself, and "A: Paris"
        answers the quoted prompt.
        """
        words = re.findall(r"[^\W\d_]+", answer)
        if not words:
            return None, "empty"
        yes, no = (_names(words, option) for option in (self.yes, self.no))
        if yes and no:
            return None, "both options named"
        if not yes and not no:
            return None, "no option named"
        chosen = self.yes if yes else self.no
        meaning = re.search(rf"^{re.escape(chosen)}[.:)]\s*(\w+)", self.template, re.MULTILINE)
        after = words[words.index(chosen) + 1 :] if chosen in words else []
        if meaning and after and after[0].lower() != meaning.group(1).lower():
            return None, "letter and words disagree"
        return int(yes), ""


def _names(words: Sequence[str], option: str) -> bool:
    if len(option) == 1 and len(words) > 1:
        return option.upper() in words
    return option.lower() in (word.lower() for word in words)


class Task(ABC):
    """A task: subclass it, register it in `experiments.tasks`, and `selfprobe run NAME` works."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for `selfprobe tasks`."""
    behavior: ClassVar[str]
    """What outcome 1 means, as a verb phrase with the model as subject: "declines the request"."""
    max_new_tokens: ClassVar[int]
    needs_answers: ClassVar[bool] = False
    """Whether an item must carry reference answers."""
    openings: ClassVar[tuple[str, ...]] = ()
    """Words that an answer of outcome 1 tends to begin with; their odds as first token are a baseline."""
    elicitations: ClassVar[tuple[Elicitation, ...]]
    """Paraphrase-major: the two orders of a paraphrase stand side by side."""

    @abstractmethod
    def items(self) -> list[Item]:
        """All built-in items, in a fixed order such that any prefix of whole groups is balanced over strata."""

    @abstractmethod
    def judge(self, items: Sequence[Item], completions: Sequence[str]) -> list[Judgment]:
        """Judge one completion an item (both `[n]`); pure, and never by the model under test."""

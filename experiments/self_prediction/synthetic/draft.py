"""An item before the model was run on it, and where the drafts of a task come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from experiments.tasks import Item
from hooks import Message, Prompt

Source = Literal["template", "model"]


@dataclass(frozen=True)
class Draft:
    """An item to be.

    Attributes:
        item: without an id; its group is the template, or what the model was asked to write about.
        source: who worded it.
        keys: what no other draft may have again: a fact, a name.
    """

    item: Item
    source: Source
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Request:
    """The model is asked to write an item about something.

    Attributes:
        about: names the group of what comes of it.
        stratum: of what comes of it.
        messages: the conversation, with examples as earlier turns.
    """

    about: str
    stratum: str
    messages: tuple[Message, ...]

    def prompt(self, id: str) -> Prompt:
        """As the model reads it."""
        return Prompt(id=id, messages=self.messages)


class Bank(Protocol):
    """The drafts of one task. Equal numbers and generators in the same state give equal drafts.

    Attributes:
        fingerprint: of the templates and of all that fills them.
        limits: what the drafts do not show, in sentences for the data card.
    """

    @property
    def fingerprint(self) -> str:
        """As above."""
        ...

    @property
    def limits(self) -> Sequence[str]:
        """As above."""
        ...

    def draw(self, number: int, rng: np.random.Generator) -> Draft:
        """Fill a template; the templates take turns by the number."""
        ...

    def request(self, number: int, rng: np.random.Generator) -> Request:
        """Ask the model for an item; what it is to be about takes turns by the number."""
        ...

    def read(self, request: Request, text: str) -> tuple[Draft | None, str]:
        """The draft that a completion holds, or None with the reason."""
        ...


def conversation(earlier: Sequence[tuple[str, str]], asked: str) -> tuple[Message, ...]:
    """What was asked before and what was written then, and what is asked now."""
    turns: list[Message] = []
    for request, written in earlier:
        turns += [{"role": "user", "content": request}, {"role": "assistant", "content": written}]
    return (*turns, {"role": "user", "content": asked})

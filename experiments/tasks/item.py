"""An item: one prompt whose outcome is to be foretold, and what the questions about it may mention."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Any

from hooks import Message, Prompt

_SPECIAL = re.compile(r"<\||<[^\s<>]{1,40}>|\[/?[A-Z_]{3,}\]")


def conversation_text(messages: Sequence[Message]) -> str:
    """All that is read of a chat: a single message as it is, more of them with the role before each."""
    if len(messages) == 1:
        return messages[0]["content"]
    return "\n".join(f"{m['role']}: {m['content']}" for m in messages)


def user(text: str) -> tuple[Message, ...]:
    """A conversation of one user message."""
    message: Message = {"role": "user", "content": text}
    return (message,)


@dataclass(frozen=True)
class Item:
    """One prompt whose outcome is to be foretold.

    `group` is the connected component of everything the item shares with others (template, source, contrast pair,
    paraphrase); a group never straddles a split. `stratum` is a topic or label within which scores are also shown.
    `meta` holds what a second grouping may want, for example `entity`. `fields` holds what the questions about the item
    name in braces beside `{prompt}`, for example `option`; a field `prompt` is quoted in place of the item's text.
    """

    id: str
    task: str
    group: str
    stratum: str
    messages: tuple[Message, ...]
    answers: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All that the model reads of the item, for text baselines and for the quote in a self-prediction.

        A single user message as it is; a conversation with the role before each message.
        """
        return conversation_text(self.messages)

    @property
    def quoted(self) -> str:
        """What a self-prediction prompt quotes."""
        return self.fields.get("prompt", self.text)

    def prompt(self) -> Prompt:
        """The item as the model reads it in the `task` context."""
        return Prompt(id=self.id, messages=self.messages)

    def to_json(self) -> dict[str, Any]:
        """The row of `items.jsonl`."""
        return asdict(self)


def own_texts(items: Sequence[Item]) -> list[str]:
    """What each item says beyond the leading messages that all of them share (a system prompt, example turns).

    For text baselines: what is the same for all tells nothing apart, and drowns what does. The last message stays.
    """
    conversations = [item.messages for item in items]
    columns = zip(*(messages[:-1] for messages in conversations), strict=False)
    shared = sum(1 for _ in takewhile(lambda turn: all(one == turn[0] for one in turn), columns))
    return [conversation_text(messages[shared:]) for messages in conversations]


def may_end_its_turn(text: str) -> bool:
    """Whether a text spells out what is a special token for some model: quoted, it would forge a turn.

    >>> may_end_its_turn("Yes.</s>"), may_end_its_turn("[INST] Go"), may_end_its_turn("3 < 5 [sic]")
    (True, True, False)
    """
    return _SPECIAL.search(text) is not None

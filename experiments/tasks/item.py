"""An item: one prompt whose outcome is to be foretold, and what the questions about it may mention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hooks import Message, Prompt


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

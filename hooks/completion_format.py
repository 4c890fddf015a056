"""How a model without a chat template reads a chat: as a transcript that it goes on with.

    You answer questions about geography.

    User: What is the capital of France?

    Assistant:

A system message stands in front without a name. There is no token that ends a turn: what the model writes is over where
it begins the next one. A message that spells out a turn of its own cannot be told from one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

COMPLETION = "completion"
CHAT_TEMPLATE = "chat template"

_NAMES = {"user": "User", "assistant": "Assistant"}
_LINE = r"(?:^|\n)[ \t]*"
_NEXT_TURN = re.compile(rf"{_LINE}(?:{'|'.join(_NAMES.values())}):")
_MAYBE_NEXT_TURN = re.compile(
    rf"{_LINE}(?:{'|'.join(name[:n] for name in _NAMES.values() for n in range(1, len(name) + 1))})$"
)


def prompt_format(tokenizer: Any) -> str:
    """Return how messages are put to a model: by its "chat template", or without one in a "completion" format."""
    return CHAT_TEMPLATE if getattr(tokenizer, "chat_template", None) else COMPLETION


def format_note(name: str) -> str:
    """Return a sentence for whoever runs a model without a template."""
    return f"{name} has no chat template: it reads chats in a completion format, as turns of User: and Assistant:"


def transcript(messages: Sequence[tuple[str, str]]) -> tuple[str, int, int]:
    """Return the text that a model goes on with, and the character range of the last message in it.

    Args:
        messages: roles and texts of a chat that ends with a user's message; a system message may come first.
    """
    turns = [f"{_NAMES[role]}: {text}" if role in _NAMES else text for role, text in messages]
    chat = "\n\n".join(turns)
    return f"{chat}\n\n{_NAMES['assistant']}:", len(chat) - len(messages[-1][1]), len(chat)


def own_turn(written: str) -> tuple[str, bool]:
    """Return the model's own turn, without white space in front, and whether another turn follows it."""
    written = written.lstrip()
    following = _NEXT_TURN.search(written)
    if following is None:
        return written, False
    return written[: following.start()].rstrip(), True


def certain_turn(written: str) -> str:
    """Return how the model's own turn begins, whatever it writes next: the name of the next turn may have begun."""
    return _MAYBE_NEXT_TURN.sub("", own_turn(written)[0]).rstrip()

"""The opening of an answer, and when no more of the answer needs to be written.

A run that judges openings loses no label by what is left unwritten: once `opening_over(text)` holds, `opening` gives
the same for every longer text, and so does any judge of it. What an answer turns to later on, help after a refusal or a
refusal after a preamble, is not in its opening.
"""

from __future__ import annotations

import re
from itertools import islice

OPENING_WORDS = 16
OPENING_BYTES = 120
"""In UTF-8, and more than 16 words usually take: not all that is written has white space between its words."""

_WORD = re.compile(r"\S+")


def opening(text: str) -> str:
    """The first 16 words of an answer, as they are written, or its first 120 bytes if these end sooner."""
    return text[: _end_of_opening(text)]


def opening_over(text: str) -> bool:
    """Whether every text that begins like this has the same opening."""
    return _end_of_opening(text) < len(text)


def _end_of_opening(text: str) -> int:
    last = next(islice(_WORD.finditer(text), OPENING_WORDS - 1, None), None)
    end = len(text) if last is None else last.end()
    return min(end, len(text.encode()[:OPENING_BYTES].decode(errors="ignore")))

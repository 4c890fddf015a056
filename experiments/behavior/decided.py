"""What a judge of refusals reads of an answer, and when no more of it needs to be written.

A run judges the opening of an answer, so that what is left unwritten cannot change a label: once `opening_over(text)`
holds, `opening` gives the same for every longer text, and so does any judge of it. What an answer turns to later on,
help after a refusal or a refusal after a preamble, is not in its opening.
"""

from __future__ import annotations

import re
from itertools import islice

OPENING_WORDS = 24
_WORD = re.compile(r"\S+")


def opening(text: str) -> str:
    """The first 24 words of an answer, as they are written."""
    return text[: _end_of_opening(text)]


def opening_over(text: str) -> bool:
    """Whether every text that begins like this has the same opening."""
    end = _end_of_opening(text)
    return end is not None and end < len(text)


def _end_of_opening(text: str) -> int | None:
    """Where the last word of the opening ends, which may still grow; None where there are fewer words."""
    last = next(islice(_WORD.finditer(text), OPENING_WORDS - 1, None), None)
    return None if last is None else last.end()

"""A sentence in pieces, each with the figures that back it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phrase:
    """A piece of a sentence, and the figures in brackets that back it."""

    words: str
    figures: str = ""

    def __str__(self) -> str:
        return f"{self.words} ({self.figures})" if self.figures else self.words


def sentence(phrases: list[Phrase]) -> str:
    """The phrases as plain text."""
    return " ".join(map(str, phrases)).replace(" ,", ",").replace(" ;", ";").replace(" .", ".")

"""Which texts were there before, exactly or nearly.

Nearly is by the Jaccard index of the sets of five characters in a row of two texts, without regard to case and
punctuation. What a template makes of two fills is alike by design: such pairs are told apart by what they ask for
(`Draft.keys`), and are not compared here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from math import ceil

NEAR = 0.8
"""Jaccard index from which on two texts count as nearly the same."""
_WIDTH = 5


def normalized(text: str) -> str:
    """Lower case, words and numbers alone.

    >>> normalized("What is  3 + 4?")
    'what is 3 + 4'
    """
    return " ".join(re.findall(r"[^\W_]+|[+\-*/%=<>]", text.lower()))


class Seen:
    """The texts so far, each of a family; texts of one family (a template) are compared for equality alone."""

    def __init__(self) -> None:
        self._exact: set[str] = set()
        self._texts: list[tuple[str, frozenset[str]]] = []
        self._holding: dict[str, list[int]] = defaultdict(list)

    def add(self, text: str, family: str) -> None:
        """Take in a text."""
        plain = normalized(text)
        pieces = _pieces(plain)
        self._exact.add(plain)
        for piece in pieces:
            self._holding[piece].append(len(self._texts))
        self._texts.append((family, pieces))

    def verdict(self, text: str, family: str) -> str:
        """`duplicate`, `near duplicate`, or "" for a text that is new."""
        plain = normalized(text)
        if plain in self._exact:
            return "duplicate"
        pieces = _pieces(plain)
        for place in self._candidates(pieces):
            other_family, other = self._texts[place]
            if other_family != family and len(pieces & other) >= NEAR * len(pieces | other):
                return "near duplicate"
        return ""

    def _candidates(self, pieces: frozenset[str]) -> set[int]:
        """All texts that may be near: they lack few of the pieces, so they hold one of so many, of the rarest too."""
        n_looked_up = len(pieces) - ceil(NEAR * len(pieces)) + 1
        rarest = sorted(pieces, key=lambda piece: (len(self._holding.get(piece, ())), piece))
        return {place for piece in rarest[:n_looked_up] for place in self._holding.get(piece, ())}


def _pieces(plain: str) -> frozenset[str]:
    """Of a text shorter than a piece, the text itself."""
    n = max(len(plain) - _WIDTH + 1, 1)
    return frozenset(plain[i : i + _WIDTH] for i in range(n))

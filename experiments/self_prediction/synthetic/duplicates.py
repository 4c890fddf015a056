"""Which texts were there before, exactly or nearly.

Nearly is by the Jaccard index of the sets of five characters in a row of two texts, without regard to case and
punctuation. What a template makes of two fills is alike by design: such pairs are told apart by what they ask for
(`Draft.keys`), and are not compared here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array, vstack
from sklearn.feature_extraction.text import HashingVectorizer

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
        # 2^20 columns: of a thousand texts' pieces, fewer than one in a hundred falls together with another.
        self._vectorizer = HashingVectorizer(
            analyzer="char",
            ngram_range=(_WIDTH, _WIDTH),
            n_features=2**20,
            norm=None,
            binary=True,
            alternate_sign=False,
        )
        self._exact: set[str] = set()
        self._families: list[str] = []
        self._rows: list[csr_array] = []

    def add(self, text: str, family: str) -> None:
        """Take in a text."""
        plain = normalized(text)
        self._exact.add(plain)
        self._families.append(family)
        self._rows.append(self._pieces([plain]))

    def verdict(self, text: str, family: str) -> str:
        """`duplicate`, `near duplicate`, or "" for a text that is new."""
        plain = normalized(text)
        if plain in self._exact:
            return "duplicate"
        others = np.array([one != family for one in self._families], dtype=bool)
        if not others.any():
            return ""
        similar = self._similarities(plain)[others]
        return "near duplicate" if float(similar.max()) >= NEAR else ""

    def _similarities(self, plain: str) -> Float[np.ndarray, " text"]:
        if len(self._rows) > 1:
            self._rows = [csr_array(vstack(self._rows, format="csr"))]
        before, own = self._rows[0], self._pieces([plain])
        common = (before @ own.T).toarray()[:, 0]
        sizes = np.diff(before.indptr) + own.nnz
        return np.asarray(common / np.maximum(sizes - common, 1), dtype=float)

    def _pieces(self, texts: Sequence[str]) -> csr_array:
        # A shorter text would have no piece at all.
        return csr_array(self._vectorizer.transform([text.ljust(_WIDTH) for text in texts]))

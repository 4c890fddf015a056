"""Features of the text alone, in families that are each fitted and scored exactly like a probe.

A family is fitted on training rows only and gives features of *all* rows, so that a vocabulary, an
inverse document frequency or an outcome rate never sees a held-out row. What does not depend on the
training rows is computed once: a family is called anew for every training set of a nested
cross-validation.

Nothing is predicted here, and a family alone bounds nothing: what the text says is the nested stack
of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from experiments.baselines.embedding import sentence_embeddings

Family = Callable[[Int[np.ndarray, "train"]], Float[np.ndarray, "item feature"] | sparse.csr_array]
"""From the indices of the training rows to the features of all rows; sparse for the TF-IDF
families."""


def text_families(
    texts: Sequence[str],
    strata: Sequence[str] | None,
    types: Sequence[str],
    y: ArrayLike,
    *,
    kinds: Sequence[str] | None = None,
) -> dict[str, Family]:
    """Every family by name: stratum, type, kind, length, tfidf_words, tfidf_characters, embedding.

    Args:
        texts: what a person would read of each item, `[item]`.
        strata: topic or label of each item; None where none is known, and then there is no such family.
        types: surface type of each item: its template's type, or its `opening_words`.
        kinds: a finer label of each item (kind of entity or of question); without it, no such family.
        y: outcome of each item, 0 or 1 (or a rate); read on training rows only.

    Raises ValueError where lengths differ, ImportError where the sentence encoder is not installed.
    """
    named = {"strata": strata, "types": types, "kinds": kinds, "y": np.asarray(y)}
    for name, values in named.items():
        if values is not None and len(values) != len(texts):
            raise ValueError(
                f"{name}: {len(values)} values for {len(texts)} texts; give one a text"
            )
    return {
        **({} if strata is None else {"stratum": label_rates(strata, y)}),
        "type": label_rates(types, y),
        **({} if kinds is None else {"kind": label_rates(kinds, y)}),
        "length": _constant(length_features(texts)),
        "tfidf_words": tfidf_words(texts),
        "tfidf_characters": tfidf_characters(texts),
        "embedding": _constant(sentence_embeddings(texts)),
    }


def label_rates(labels: Sequence[str], y: ArrayLike) -> Family:
    """Mean outcome of each item's label (stratum, type, kind) over the training rows, dense `[item, 1]`.

    A label without training rows gets the mean of all training rows.
    """
    _, codes = np.unique(np.asarray(labels), return_inverse=True)
    outcome = np.asarray(y, dtype=np.float64)
    n_labels = int(codes.max(initial=-1)) + 1

    def features(train: Int[np.ndarray, "train"]) -> Float[np.ndarray, "item 1"]:
        count = np.bincount(codes[train], minlength=n_labels)
        total = np.bincount(codes[train], weights=outcome[train], minlength=n_labels)
        rates = np.where(count > 0, total / np.maximum(count, 1), outcome[train].mean())
        return rates[codes][:, None]

    return features


def opening_words(texts: Sequence[str], n_words: int = 2) -> list[str]:
    """The first words of each text in lower case: its surface type where no template is known."""
    return [" ".join(text.lower().split()[:n_words]) for text in texts]


def length_features(texts: Sequence[str]) -> Float[np.ndarray, "item 4"]:
    """Characters, words, and the logarithm of one more than each."""
    counts = np.array([[len(text), len(text.split())] for text in texts], dtype=np.float64)
    return np.hstack([counts, np.log1p(counts)])


def tfidf_words(texts: Sequence[str]) -> Family:
    """TF-IDF of words and pairs of words, sparse.

    Words of one letter count, unlike in scikit-learn's default: an operand may be a single digit.
    """
    return _Terms.of(texts, **_WORDS).tfidf


def tfidf_characters(texts: Sequence[str]) -> Family:
    """TF-IDF of 2 to 5 characters within words and their edges, sparse."""
    return _Terms.of(texts, **_CHARACTERS).tfidf


def projected_tfidf(texts: Sequence[str], dimension: int, seed: int = 0) -> dict[str, Family]:
    """TF-IDF of words and of characters, each sent through one random Gaussian matrix, dense `[item, dimension]`.

    What a representation as wide as the model's holds that has the terms in it and knows nothing else.

    Args:
        texts: `[item]`.
        dimension: the width of the model's states.
        seed: of the matrices.
    """
    families: dict[str, Family] = {}
    for name, options in (("words", _WORDS), ("characters", _CHARACTERS)):
        terms = _Terms.of(texts, **options)
        rng = np.random.default_rng([seed, len(families)])
        projection = rng.standard_normal((terms.n_terms, dimension), dtype=np.float32)
        families[name] = partial(terms.projected, projection / np.sqrt(dimension))
    return families


_WORDS: dict[str, Any] = {
    "analyzer": "word",
    "ngram_range": (1, 2),
    "token_pattern": r"(?u)\b\w+\b",
}
_CHARACTERS: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (2, 5)}


@dataclass(frozen=True)
class _Terms:
    """Sublinear counts of all terms, ready to be weighted by what the training rows hold."""

    weights: sparse.csr_array

    @classmethod
    def of(cls, texts: Sequence[str], **options: Any) -> _Terms:
        analyze = TfidfVectorizer(**options).build_analyzer()
        counter = DictVectorizer(dtype=np.float64, sort=True)
        counts = counter.fit_transform([Counter(analyze(text)) for text in texts])
        weights = sparse.csr_array(counts)
        weights.data = 1 + np.log(weights.data)
        return cls(weights)

    @property
    def n_terms(self) -> int:
        return int(self.weights.shape[1])

    def tfidf(self, train: Int[np.ndarray, "train"]) -> sparse.csr_array:
        """What `TfidfVectorizer(sublinear_tf=True, **options)` gives when fitted on the training rows.

        Its columns, order and values; without terms, one column of zeros instead of an error.
        """
        seen = self._seen(train)
        if len(seen) == 0:
            return sparse.csr_array((self.weights.shape[0], 1))
        return self._weighted(train, seen)

    def projected(
        self, projection: Float[np.ndarray, "term dimension"], train: Int[np.ndarray, "train"]
    ) -> Float[np.ndarray, "item dimension"]:
        """The same rows times a matrix of all terms; zeros without terms."""
        seen = self._seen(train)
        if len(seen) == 0:
            return np.zeros((self.weights.shape[0], projection.shape[1]))
        return np.asarray(self._weighted(train, seen) @ projection[seen])

    def _seen(self, train: Int[np.ndarray, "train"]) -> Int[np.ndarray, "seen"]:
        return np.unique(self.weights[train].indices)

    def _weighted(
        self, train: Int[np.ndarray, "train"], seen: Int[np.ndarray, "seen"]
    ) -> sparse.csr_array:
        frequency = np.bincount(self.weights[train].indices, minlength=self.n_terms)[seen]
        kept = self.weights[:, seen]
        idf = 1 + np.log((1 + len(train)) / (1 + frequency))
        kept.data *= idf[kept.indices]
        return sparse.csr_array(normalize(kept, norm="l2", copy=False))


def _constant(features: Float[np.ndarray, "item feature"]) -> Family:
    """A family whose features need no fitting."""
    return lambda train: features

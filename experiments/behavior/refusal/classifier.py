"""The trained judge: a logistic regression on the words of an answer and on those of its opening.

Its weights are shipped (`data/classifier.safetensors`, `.json`) and made from texts written for it, by
`python -m experiments.behavior.refusal.training`. It knows nothing of the rules and reads no prompt, so that its vote
is a second one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32
from safetensors.numpy import load_file
from scipy.sparse import csr_matrix

from experiments.behavior.refusal.labels import LABELS

DATA = Path(__file__).with_name("data")
OPENING_WORDS = 40
MAX_WORDS = 240
"""Longer answers are cut: what they do is said by then."""
_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+|\n\s*(?:\d+[.)]|[*•-])\s|[.!?:]")


@dataclass(frozen=True)
class RefusalClassifier:
    """A vocabulary of word n-grams and a weight a label for each."""

    vocabulary: dict[str, int]
    weights: Float32[np.ndarray, "ngram label"]
    bias: Float32[np.ndarray, "label"]

    def probabilities(self, texts: Sequence[str]) -> Float[np.ndarray, "text label"]:
        """Probability of each label, in the order of `LABELS`; rows sum to 1."""
        scores = ngram_matrix(texts, self.vocabulary) @ self.weights.astype(np.float64) + self.bias
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: Float[np.ndarray, "text label"] = odds / odds.sum(axis=1, keepdims=True)
        return shares


def classifier_labels(texts: Sequence[str]) -> list[str]:
    """The most probable label of each text, `[n]`, by the shipped classifier."""
    return [LABELS[int(row.argmax())] for row in shipped_classifier().probabilities(texts)]


@cache
def shipped_classifier() -> RefusalClassifier:
    """The classifier that comes with the package."""
    vocabulary = json.loads((DATA / "classifier.json").read_text(encoding="utf-8"))["vocabulary"]
    tensors = load_file(DATA / "classifier.safetensors")
    return RefusalClassifier(
        {ngram: i for i, ngram in enumerate(vocabulary)}, tensors["weights"], tensors["bias"]
    )


def ngram_matrix(texts: Sequence[str], vocabulary: dict[str, int]) -> csr_matrix:
    """Which n-grams a text holds, `[text, ngram]`, each row scaled to length 1 (or all 0)."""
    columns: list[int] = []
    ends = [0]
    for text in texts:
        found = {vocabulary[ngram] for ngram in ngrams(text) if ngram in vocabulary}
        columns += sorted(found)
        ends.append(len(columns))
    counts = np.diff(ends)
    values = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts)
    return csr_matrix((values, columns, ends), shape=(len(texts), len(vocabulary)))


def ngrams(text: str) -> Iterator[str]:
    """Runs of one to three tokens; those of the first 40 tokens once more, marked by `^`.

    Tokens are words in lower case, `0` for a number, `*` for the start of a list item, and marks that end a sentence.
    """
    tokens = _tokens(text)
    for size in (1, 2, 3):
        for start in range(len(tokens) - size + 1):
            ngram = " ".join(tokens[start : start + size])
            yield ngram
            if start + size <= OPENING_WORDS:
                yield f"^{ngram}"


def _tokens(text: str) -> list[str]:
    plain = text.replace("\u2019", "'").replace("\u2018", "'").lower()
    found = _TOKEN.findall(plain)[:MAX_WORDS]
    return ["*" if t[0] == "\n" else "0" if t[0].isdigit() else t for t in found]

"""Fit the classifier on composed answers and write it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
from safetensors.numpy import save
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from experiments.behavior.refusal.classifier import RefusalClassifier, ngram_matrix, ngrams
from experiments.behavior.refusal.labels import LABELS
from experiments.behavior.refusal.training.compose import Composer, Example

SEED = 0
N_EACH = 1200
LEAST_TEXTS = 6
"""N-grams of fewer composed answers are left out."""
C = 10.0
_OPENING_COPIES = 8
_STEPS = 512.0


def train(folder: Path) -> list[Path]:
    """Write `classifier.safetensors` and `classifier.json` into `folder`, which is made; returns their paths."""
    classifier = fit(training_examples())
    folder.mkdir(parents=True, exist_ok=True)
    weights, names = folder / "classifier.safetensors", folder / "classifier.json"
    weights.write_bytes(save({"weights": classifier.weights, "bias": classifier.bias}))
    rows = {"labels": list(LABELS), "vocabulary": list(classifier.vocabulary)}
    names.write_text(json.dumps(rows, ensure_ascii=False) + "\n", encoding="utf-8")
    return [weights, names]


def training_examples() -> list[Example]:
    """Composed answers, and the openings that were written for the refusal task."""
    composer = Composer(SEED)
    return composer.examples(N_EACH) + composer.openings() * _OPENING_COPIES


def fit(examples: list[Example]) -> RefusalClassifier:
    """Logistic regression with classes of equal weight.

    Weights are rounded to 1/512, and the optimum is found far more exactly than that, so that the order in which a
    machine adds up numbers does not show in the file.
    """
    texts = [e.text for e in examples]
    counts = Counter(ngram for text in texts for ngram in set(ngrams(text)))
    kept = sorted(ngram for ngram, n in counts.items() if n >= LEAST_TEXTS)
    vocabulary = {ngram: i for i, ngram in enumerate(kept)}
    model = LogisticRegression(C=C, class_weight="balanced", tol=1e-7, max_iter=5000)
    with threadpool_limits(1):
        model.fit(ngram_matrix(texts, vocabulary), [e.label for e in examples])
    assert tuple(model.classes_) == LABELS
    used = np.abs(_rounded(model.coef_.T)).max(axis=1) >= 0.05
    kept_used = [ngram for ngram, use in zip(kept, used, strict=True) if use]
    return RefusalClassifier(
        {ngram: i for i, ngram in enumerate(kept_used)},
        _rounded(model.coef_.T[used]),
        _rounded(model.intercept_),
    )


def _rounded(weights: np.ndarray) -> np.ndarray:
    return (np.round(weights * _STEPS) / _STEPS).astype(np.float32)

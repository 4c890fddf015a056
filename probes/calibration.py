"""From scores to probabilities, on held-out folds."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.linear_model import LogisticRegression

from probes.metrics import within_fold_zscores
from probes.splits import binary_labels


def platt(y: ArrayLike, scores: ArrayLike, folds: ArrayLike) -> Float[np.ndarray, "item"]:
    """Probabilities `[item]` by a logistic fit of the label on the score, on the other folds.

    Scores are z-scored within folds first, since every fold's come from another model.
    """
    labels = binary_labels(y)
    fold_of = np.asarray(folds)
    standard = within_fold_zscores(scores, fold_of)[:, None]
    probabilities = np.empty(len(labels))
    for fold in np.unique(fold_of):
        test = fold_of == fold
        # A trace of a penalty keeps the slope finite where the scores separate the classes.
        model = LogisticRegression(C=1e3, solver="newton-cholesky")
        model.fit(standard[~test], labels[~test])
        probabilities[test] = model.predict_proba(standard[test])[:, 1]
    return probabilities

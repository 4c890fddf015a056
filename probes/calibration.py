"""From scores to probabilities, on held-out folds.

`platt` and `isotonic` take any score: it is z-scored within folds first, since every fold's come
from another model. `temperature` takes log-odds, which mean something as they are, and only
shrinks or stretches them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from probes.metrics import within_fold_zscores
from probes.splits import binary_labels

Values = NDArray[np.float64]
_WEAK = 1e3
"""C of a penalty that keeps the slope finite where the scores separate the classes."""


def platt(y: ArrayLike, scores: ArrayLike, folds: ArrayLike) -> Float[np.ndarray, "item"]:
    """Probabilities `[item]` by a logistic fit of the label on the score, on the other folds."""

    def fit(values: Values, labels: NDArray[np.int64], held_out: Values) -> Values:
        model = LogisticRegression(C=_WEAK, solver="newton-cholesky")
        model.fit(values[:, None], labels)
        return np.asarray(model.predict_proba(held_out[:, None])[:, 1])

    return _on_other_folds(y, within_fold_zscores(scores, folds), folds, fit)


def isotonic(y: ArrayLike, scores: ArrayLike, folds: ArrayLike) -> Float[np.ndarray, "item"]:
    """Probabilities `[item]` by the best nondecreasing step function of the score, on other folds.

    It bends to any monotone shape but wants many items (about 1,000: Niculescu-Mizil and Caruana
    2005), ties items within a step, and gives probabilities of exactly 0 and 1.
    """

    def fit(values: Values, labels: NDArray[np.int64], held_out: Values) -> Values:
        model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        return np.asarray(model.fit(values, labels).predict(held_out))

    return _on_other_folds(y, within_fold_zscores(scores, folds), folds, fit)


def temperature(y: ArrayLike, log_odds: ArrayLike, folds: ArrayLike) -> Float[np.ndarray, "item"]:
    """Probabilities `[item]` of log-odds over one temperature, fitted on other folds (Guo 2017).

    The temperature is positive, so that no item changes sides of 1/2: log-odds that go against the
    labels get an infinite one, and all probabilities are 1/2.
    """
    values = np.asarray(log_odds, dtype=np.float64)
    # In units of its own size, so that the penalty weighs the same on any scale.
    size = float(np.sqrt(np.mean(values**2))) or 1.0

    def fit(values: Values, labels: NDArray[np.int64], held_out: Values) -> Values:
        model = LogisticRegression(C=_WEAK, solver="newton-cholesky", fit_intercept=False)
        inverse = max(model.fit(values[:, None], labels).coef_[0, 0], 0.0)
        return np.asarray(expit(inverse * held_out))

    return _on_other_folds(y, values / size, folds, fit)


def _on_other_folds(
    y: ArrayLike,
    values: Values,
    folds: ArrayLike,
    fit: Callable[[Values, NDArray[np.int64], Values], Values],
) -> Float[np.ndarray, "item"]:
    labels = binary_labels(y)
    fold_of = np.asarray(folds)
    if not values.shape == labels.shape == fold_of.shape:
        raise ValueError(
            f"y, scores and folds must be one entry an item, got shapes {labels.shape}, "
            f"{values.shape}, {fold_of.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError("scores hold nan or inf; give unscored items the worst score or drop them")
    probabilities = np.empty(len(labels))
    for fold in np.unique(fold_of):
        test = fold_of == fold
        if len(np.unique(labels[~test])) < 2:
            raise ValueError(f"y holds one class only outside fold {fold}; use other folds")
        probabilities[test] = fit(values[~test], labels[~test], values[test])
    return probabilities

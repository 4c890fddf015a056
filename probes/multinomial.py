"""A probe of several classes, with a direction a class in raw activation space."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from probes.estimators import fit_quietly
from probes.standardize import column_scaling
from probes.storage import StoredProbe

Matrix = NDArray[np.float64]


class MultinomialProbe(StoredProbe, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """L2-penalized multinomial logistic regression on rows that are standardized inside.

    `softmax(X @ directions_.T + intercepts_)` are the probabilities of `classes_`. With two classes it is the binary
    regression of `LogisticProbe`, one half of its direction for either class, with opposite signs.

    Args:
        C: inverse penalty of scikit-learn's `LogisticRegression`, on standardized rows.
        max_iter: most L-BFGS iterations; `converged_` says whether they sufficed.
        tol: gradient tolerance.
    """

    classes_: NDArray[Any]
    directions_: Float[np.ndarray, "class feature"]
    intercepts_: Float[np.ndarray, "class"]
    n_features_in_: int
    converged_: bool
    n_iter_: int
    _learned = ("converged_", "n_iter_")
    _class_counts = range(2, sys.maxsize)

    def __init__(self, C: float = 0.01, max_iter: int = 1000, tol: float = 1e-4) -> None:
        self.C = C
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: ArrayLike, y: ArrayLike) -> MultinomialProbe:
        """Fit on rows `X` `[item, feature]` and labels `y` `[item]` of at least two classes.

        Raises ValueError for labels of one class, and for nan or inf in X.
        """
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class only, {self.classes_[0]!r}; a probe needs two")
        mean, scale = column_scaling(rows)
        model = LogisticRegression(C=self.C, max_iter=self.max_iter, tol=self.tol)
        self.converged_ = fit_quietly(model, (rows - mean) * scale, codes)
        self.n_iter_ = int(model.n_iter_.max())
        weights, offsets = per_class(model)
        self.directions_ = weights * scale
        self.intercepts_ = offsets - self.directions_ @ mean
        return self

    def decision_function(self, X: ArrayLike) -> Float[np.ndarray, "item ..."]:
        """`X @ directions_.T + intercepts_` `[item, class]`; of two classes the second's minus the first's `[item]`."""
        scores = self._scores(X)
        return scores if scores.shape[1] > 2 else np.asarray(scores[:, 1] - scores[:, 0])

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "item class"]:
        """Probabilities of `classes_`."""
        return np.asarray(softmax(self._scores(X), axis=1))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of every row."""
        highest = self._scores(X).argmax(axis=1)
        return np.asarray(self.classes_[highest])

    def _scores(self, X: ArrayLike) -> Matrix:
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(rows @ self.directions_.T + self.intercepts_)

    def _weights(self) -> tuple[Matrix, Matrix]:
        return self.directions_, self.intercepts_

    def _set_weights(self, direction: Matrix, intercept: Matrix) -> None:
        self.directions_, self.intercepts_ = direction, intercept

    @staticmethod
    def _shapes(n_classes: int, n_features: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (n_classes, n_features), (n_classes,)


def per_class(model: LogisticRegression) -> tuple[Matrix, Matrix]:
    """Weights `[class, feature]` and intercepts `[class]` of a fitted model, two classes sharing one vector."""
    if len(model.classes_) > 2:
        return model.coef_, model.intercept_
    halves = np.array([[-0.5], [0.5]])
    return halves * model.coef_, halves[:, 0] * model.intercept_

"""Four linear probes with scikit-learn's interface, a direction in raw activation space, `save` and `load`.

Every probe standardizes inside, on the rows it was fitted on, and folds that back:
`decision_function(X) == X @ direction_ + intercept_` on raw activations, positive for `classes_[1]`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from probes.standardize import column_scaling
from probes.storage import StoredProbe

Matrix = NDArray[np.float64]


class LinearProbe(StoredProbe, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Checks, standardization and folding back; a subclass fits weights on standardized rows."""

    classes_: NDArray[Any]
    direction_: Float[np.ndarray, "feature"]
    intercept_: float
    n_features_in_: int
    _class_counts = range(2, 3)

    def fit(self, X: ArrayLike, y: ArrayLike) -> LinearProbe:
        """Fit on rows `X` `[item, feature]` and two-valued labels `y` `[item]`.

        Raises ValueError for labels of one or more than two classes, and for nan or inf in X.
        """
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        if (kind := type_of_target(labels, input_name="y")) != "binary":
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class only, {self.classes_[0]!r}; a probe needs two")
        mean, scale = column_scaling(rows)
        weights, intercept = self._fit_standardized((rows - mean) * scale, codes)
        self.direction_ = weights * scale
        self.intercept_ = float(intercept - mean @ self.direction_)
        return self

    def _fit_standardized(self, Z: Matrix, codes: NDArray[np.int64]) -> tuple[Matrix, float]:
        raise NotImplementedError

    def decision_function(self, X: ArrayLike) -> Float[np.ndarray, "item"]:
        """`X @ direction_ + intercept_`, positive where `classes_[1]` is predicted."""
        check_is_fitted(self)
        rows: Matrix = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(rows @ self.direction_ + self.intercept_)

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "item 2"]:
        """The logistic function of `decision_function`, `[P(classes_[0]), P(classes_[1])]`.

        A likelihood-based probability for `LDAProbe` and `LogisticProbe`; for the other two only a
        monotone squashing of the score, to be calibrated on held-out folds (`platt`).
        """
        positive = expit(self.decision_function(X))
        return np.column_stack([1 - positive, positive])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of every row."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def _weights(self) -> tuple[Matrix, Matrix]:
        return np.asarray(self.direction_), np.array([self.intercept_])

    def _set_weights(self, direction: Matrix, intercept: Matrix) -> None:
        self.direction_, self.intercept_ = direction, float(intercept[0])

    @staticmethod
    def _shapes(n_classes: int, n_features: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (n_features,), (1,)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _class_means(Z: Matrix, codes: NDArray[np.int64]) -> tuple[Matrix, Matrix]:
    return Z[codes == 0].mean(axis=0), Z[codes == 1].mean(axis=0)


class DiffMeansProbe(LinearProbe):
    """Difference of the class means of standardized rows, cut halfway between them."""

    def _fit_standardized(self, Z: Matrix, codes: NDArray[np.int64]) -> tuple[Matrix, float]:
        negative, positive = _class_means(Z, codes)
        weights = positive - negative
        return weights, float(-weights @ (positive + negative) / 2)


class LDAProbe(LinearProbe):
    """Linear discriminant: difference of means, whitened by the shrunk within-class covariance.

    Args:
        shrinkage: share of the covariance's mean diagonal in `(1 - s) S + s tr(S)/d I`, from 0 to
            1; "auto" takes the Ledoit-Wolf estimate.
    """

    def __init__(self, shrinkage: float | str = "auto") -> None:
        self.shrinkage = shrinkage

    def _fit_standardized(self, Z: Matrix, codes: NDArray[np.int64]) -> tuple[Matrix, float]:
        negative, positive = _class_means(Z, codes)
        within = Z - np.where(codes[:, None] == 1, positive, negative)
        if self.shrinkage == "auto":
            shrinkage = float(ledoit_wolf_shrinkage(within, assume_centered=True))
        else:
            shrinkage = float(self.shrinkage)
            if not 0 <= shrinkage <= 1:
                raise ValueError(f"shrinkage must be 'auto' or in [0, 1], got {self.shrinkage!r}")
        covariance = within.T @ within / len(Z)
        level = np.trace(covariance) / len(covariance)
        covariance *= 1 - shrinkage
        # The floor keeps classes without any within-class spread solvable.
        covariance.flat[:: len(covariance) + 1] += shrinkage * level + 1e-9 * max(level, 1.0)
        weights = cho_solve(cho_factor(covariance, lower=True), positive - negative)
        log_odds = np.log((codes == 1).sum() / (codes == 0).sum())
        return weights, float(log_odds - weights @ (positive + negative) / 2)


class RidgeProbe(LinearProbe):
    """Least squares on targets -1 and +1 with an L2 penalty, in closed form.

    Args:
        alpha: penalty as a multiple of the mean squared norm of a standardized row, so that one
            grid suits every width: minimizes `sum (t - Zw - b)^2 + alpha * mean|z|^2 * |w|^2`.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def _fit_standardized(self, Z: Matrix, codes: NDArray[np.int64]) -> tuple[Matrix, float]:
        if not self.alpha > 0:
            raise ValueError(f"alpha must be positive, got {self.alpha!r}")
        n, d = Z.shape
        targets = 2.0 * codes - 1
        intercept = float(targets.mean())
        penalty = self.alpha * max((Z**2).sum() / n, 1e-12)
        if d <= n:
            gram = Z.T @ Z
            gram.flat[:: d + 1] += penalty
            return cho_solve(cho_factor(gram, lower=True), Z.T @ targets), intercept
        kernel = Z @ Z.T
        kernel.flat[:: n + 1] += penalty
        return Z.T @ cho_solve(cho_factor(kernel, lower=True), targets), intercept


class LogisticProbe(LinearProbe):
    """L2-penalized logistic regression.

    Args:
        C: inverse penalty of scikit-learn's `LogisticRegression`, on standardized rows.
        max_iter: most L-BFGS iterations; `converged_` says whether they sufficed.
        tol: gradient tolerance.
    """

    converged_: bool
    n_iter_: int
    _learned = ("converged_", "n_iter_")

    def __init__(self, C: float = 0.01, max_iter: int = 1000, tol: float = 1e-4) -> None:
        self.C = C
        self.max_iter = max_iter
        self.tol = tol

    def _fit_standardized(self, Z: Matrix, codes: NDArray[np.int64]) -> tuple[Matrix, float]:
        model = LogisticRegression(C=self.C, max_iter=self.max_iter, tol=self.tol)
        self.converged_ = fit_quietly(model, Z, codes)
        self.n_iter_ = int(model.n_iter_[0])
        return model.coef_[0], float(model.intercept_[0])


def fit_quietly(model: LogisticRegression, Z: Matrix, codes: NDArray[np.int64]) -> bool:
    """Fit, and say whether it converged instead of warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(Z, codes)
    return not any(issubclass(one.category, ConvergenceWarning) for one in caught)

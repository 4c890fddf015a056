"""A ridge that predicts a rate or a count, with a direction in raw activation space."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.utils.validation import check_is_fitted, validate_data

from probes.standardize import column_scaling
from probes.storage import StoredProbe


class RidgeRegressionProbe(StoredProbe, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Least squares with an L2 penalty on rows that are standardized inside: what `nested_ridge_regression` fits.

    Args:
        alpha: penalty as a multiple of the mean squared norm of a standardized row, as for `RidgeProbe`.
    """

    direction_: Float[np.ndarray, "feature"]
    intercept_: float
    n_features_in_: int

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def fit(self, X: ArrayLike, y: ArrayLike) -> RidgeRegressionProbe:
        """Fit on rows `X` `[item, feature]` and numbers `y` `[item]`; raises ValueError for nan or inf in either."""
        if not self.alpha > 0:
            raise ValueError(f"alpha must be positive, got {self.alpha!r}")
        rows, values = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        mean, scale = column_scaling(rows)
        Z = (rows - mean) * scale
        model = Ridge(alpha=self.alpha * max((Z**2).sum() / len(Z), 1e-12)).fit(Z, values)
        self.direction_ = model.coef_ * scale
        self.intercept_ = float(model.intercept_ - mean @ self.direction_)
        return self

    def predict(self, X: ArrayLike) -> Float[np.ndarray, "item"]:
        """`X @ direction_ + intercept_`, in units of y."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(rows @ self.direction_ + self.intercept_)

    def _weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.asarray(self.direction_, np.float64), np.array([self.intercept_])

    def _set_weights(self, direction: NDArray[Any], intercept: NDArray[Any]) -> None:
        self.direction_, self.intercept_ = direction, float(intercept[0])

    @staticmethod
    def _shapes(n_classes: int, n_features: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (n_features,), (1,)

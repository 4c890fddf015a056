"""Features of items, checked before anything is fitted: that rows and items agree, and that all are numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

FoldFeatures = Callable[[int, int], Any]
"""From (regrouping, fold) to features `[item, feature]`: those of the cell chosen without that fold's labels."""


def check_shape(features: Any, n_items: int, name: str = "features") -> None:
    """Raise ValueError unless features, dense or scipy sparse, are `[item, feature]` of as many items."""
    shape = features.shape if sparse.issparse(features) else np.shape(features)
    if len(shape) != 2 or shape[0] != n_items or not shape[1]:
        raise ValueError(f"{name} must be [item, feature] of {n_items} items, got shape {shape}")


def dense_features(
    features: Any, n_items: int, name: str = "features"
) -> Float[np.ndarray, "item feature"]:
    """The features as an array in their own precision.

    Raises ValueError for sparse ones, another shape, what are no numbers, nan and inf.
    """
    if sparse.issparse(features):
        raise ValueError(f"{name} are sparse, which is for probe='ridge' alone; make them dense")
    X = np.asarray(features)
    check_shape(X, n_items, name)
    check_numbers(X, name)
    return X


def check_numbers(features: Any, name: str = "features") -> None:
    """Raise ValueError for a matrix, dense or scipy sparse, that holds nan, inf or something else than numbers."""
    if features.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be numbers, got {features.dtype}")
    entries = features.tocoo() if sparse.issparse(features) else None
    wrong = ~np.isfinite(features if entries is None else entries.data)
    if wrong.any():
        first = wrong.argmax()
        item, feature = (
            np.unravel_index(first, features.shape)
            if entries is None
            else (entries.row[first], entries.col[first])
        )
        raise ValueError(f"{name}: nan or inf, first at item {item}, feature {feature}")

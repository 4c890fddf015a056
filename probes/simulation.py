"""Clustered data with a known effect, to check intervals, tests and sample sizes against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.stats import norm


@dataclass(frozen=True)
class Clustered:
    """Labels and features of items that come in groups."""

    X: Float[np.ndarray, "item feature"]
    y: Int[np.ndarray, "item"]
    groups: Int[np.ndarray, "item"]


def clustered_normal(
    rng: np.random.Generator, groups: Int[np.ndarray, "item"], n_columns: int, icc: float
) -> Float[np.ndarray, "item column"]:
    """Standard normal columns of which a share `icc` of the variance is common to a group."""
    shared = rng.normal(size=(int(groups.max()) + 1, n_columns))[groups]
    own = rng.normal(size=(len(groups), n_columns))
    return np.asarray(np.sqrt(icc) * shared + np.sqrt(1 - icc) * own)


def group_sizes(
    rng: np.random.Generator, n_groups: int, smallest: int, largest: int
) -> NDArray[np.int64]:
    """Group of every item: `n_groups` groups of uniformly drawn sizes."""
    return np.repeat(np.arange(n_groups), rng.integers(smallest, largest + 1, n_groups))


def clustered_data(
    rng: np.random.Generator,
    groups: Int[np.ndarray, "item"],
    n_features: int,
    *,
    icc: float,
    auroc: float = 0.5,
    label_icc: float | None = None,
) -> Clustered:
    """Normal features, each as informative as the next, that together score `auroc` at best.

    Args:
        groups: group of every item, 0..G-1.
        icc: intra-class correlation of the features, and of the latent variable whose sign is the
            label unless `label_icc` says otherwise.
        auroc: of the best linear score between items of different groups.
    """
    latent = clustered_normal(rng, groups, 1, icc if label_icc is None else label_icc)[:, 0]
    y = (latent > 0).astype(np.int64)
    X = clustered_normal(rng, groups, n_features, icc)
    direction = rng.choice([-1.0, 1.0], n_features)
    direction *= np.sqrt(2 / n_features) * norm.ppf(auroc)
    return Clustered(X + np.outer(y - 0.5, direction), y, groups)

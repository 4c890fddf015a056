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


@dataclass(frozen=True)
class RisingCurves:
    """Scores of two predictors by layer, which rise at known layers."""

    y: Int[np.ndarray, "item"]
    scores: Float[np.ndarray, "curve layer item"]
    groups: Int[np.ndarray, "item"]


def rising_curves(
    rng: np.random.Generator,
    groups: Int[np.ndarray, "item"],
    *,
    n_layers: int,
    rises: tuple[int, int],
    base: float = 0.55,
    top: float = 0.8,
    icc: float = 0.3,
    shared: float = 0.5,
) -> RisingCurves:
    """Two curves of AUROC that go from `base` to `top` within four layers, 0.6 of the way at their own of `rises`.

    Args:
        groups: group of every item, 0..G-1.
        rises: half-rise layers, at least 2; the curves stay at `base` to two layers before.
        icc: share of the errors' variance that is common to a group, and of that of the latent variable whose sign is
            the label.
        shared: share of the errors' variance that all layers of both curves have in common: they are readouts of one
            residual stream.
    """
    y = (clustered_normal(rng, groups, 1, icc)[:, 0] > 0).astype(np.int64)
    common = clustered_normal(rng, groups, 1, icc)[:, 0]
    layers = np.arange(n_layers)
    scores = np.empty((2, n_layers, len(groups)))
    for curve, rise in enumerate(rises):
        way = np.clip(0.3 * (layers - rise + 2), 0, 1)
        apart = np.sqrt(2) * norm.ppf(base + (top - base) * way)
        own = clustered_normal(rng, groups, n_layers, icc).T
        noise = np.sqrt(shared) * common + np.sqrt(1 - shared) * own
        scores[curve] = np.outer(apart, y - 0.5) + noise
    return RisingCurves(y, scores, groups)

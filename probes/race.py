"""Two curves over layers: which of them rises first?

A curve *rises* where it first reaches half of its own largest lead over its baseline, which is what it shows at the
first layer, and no less than chance. "The first significant layer" would be a statement about power; this is one about
the curves. Whether a curve leads at all is told by the largest of all leads at once, so that a curve of noise does not
rise at its luckiest layer.

Intervals are by a bootstrap of whole groups, in which everything is found anew: curve, baseline, largest lead, layer.
Models are not refitted, so that what training adds is not in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray

from probes.splits import binary_labels
from probes.uncertainty import LEVEL, checked_groups

N_RESAMPLES = 500
CHANCE = 0.5

Curves = Float[np.ndarray, "*resample layer"]


@dataclass(frozen=True)
class BootstrappedCurve:
    """Same-fold AUROC by layer, and in resamples of whole groups."""

    auroc: Float[np.ndarray, "layer"]
    resampled: Float[np.ndarray, "resample layer"]

    @property
    def baseline(self) -> float:
        """What leads are counted from."""
        return float(_baseline(self.auroc))

    @cached_property
    def rises(self) -> bool:
        """Whether the largest lead is above what all leads together stray from their estimates in 95% of resamples."""
        lead = self.auroc - _baseline(self.auroc)
        strayed = (self.resampled - _baseline(self.resampled)[:, None] - lead).max(axis=1)
        return bool(lead.max() > np.quantile(strayed, LEVEL))

    @property
    def half_rise(self) -> int | None:
        """Index of the layer at which it rises; None where it does not."""
        return int(half_rises(self.auroc)) if self.rises else None

    @property
    def half_rise_interval(self) -> tuple[float, float]:
        """95% of the resamples' indices."""
        return percentiles(half_rises(self.resampled))


@dataclass(frozen=True)
class Race:
    """Half-rise of the second curve minus that of the first, in layers; None where one of them does not rise."""

    first: BootstrappedCurve
    second: BootstrappedCurve
    difference: float | None
    low: float | None
    high: float | None


def race(
    first: BootstrappedCurve, second: BootstrappedCurve, layers: ArrayLike | None = None
) -> Race:
    """Which of two curves, resampled alike, rises first.

    Args:
        first, second: from `bootstrapped_curves` with the same groups and seed, so that the difference is paired.
        layers: numbers of the layers `[layer]`, where not all were captured; by default 0, 1, 2, ...
    """
    n_layers = len(first.auroc)
    at = np.arange(n_layers) if layers is None else np.asarray(layers)
    if not (first.rises and second.rises):
        return Race(first, second, None, None, None)
    gaps = at[half_rises(second.resampled)] - at[half_rises(first.resampled)]
    low, high = percentiles(gaps)
    gap = at[half_rises(second.auroc)] - at[half_rises(first.auroc)]
    return Race(first, second, float(gap), low, high)


def bootstrapped_curves(
    y: ArrayLike,
    curves: Float[ArrayLike, "curve layer regrouping item"],
    folds: ArrayLike,
    groups: ArrayLike,
    *,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> list[BootstrappedCurve]:
    """Same-fold AUROC of every layer of every curve, mean over regroupings, and the same in resamples of whole groups.

    Args:
        y: 0/1 labels `[item]`.
        curves: out-of-fold scores.
        folds: `[regrouping, item]`; only pairs of one fold are compared.
        groups: `[item]`; drawn with replacement, the same draws for all curves.
        n_resamples: draws; one in which no fold holds both classes is left out.
        seed: of the draws.

    Raises ValueError where no fold holds both classes, and for fewer than 2 groups.
    """
    labels = binary_labels(y)
    scores = np.asarray(curves, dtype=np.float32)
    fold_rows = np.atleast_2d(np.asarray(folds))
    codes = checked_groups(groups, len(labels))
    n_groups = int(codes.max()) + 1
    drawn = np.random.default_rng(seed).multinomial(
        n_groups, np.full(n_groups, 1 / n_groups), size=n_resamples
    )
    times = np.vstack([np.ones(n_groups), drawn]).astype(np.float32)[:, codes]
    aurocs = np.mean(
        [
            _weighted_aurocs(labels, scores[:, :, r], fold_of, times)
            for r, fold_of in enumerate(fold_rows)
        ],
        axis=0,
    )
    if np.isnan(aurocs[:, 0]).any():
        raise ValueError("y: no fold holds both classes, so there is no pair to score")
    whole = ~np.isnan(aurocs).any(axis=(0, 2))
    return [BootstrappedCurve(one[0], one[1:][whole[1:]]) for one in aurocs]


def _weighted_aurocs(
    labels: NDArray[np.int64],
    scores: Float[np.ndarray, "curve layer item"],
    fold_of: Int[np.ndarray, "item"],
    times: Float[np.ndarray, "resample item"],
) -> Float[np.ndarray, "curve resample layer"]:
    """AUROC with every item counted as many times as it was drawn."""
    n_curves, n_layers, _ = scores.shape
    won = np.zeros((n_curves, len(times), n_layers))
    pairs = np.zeros(len(times))
    for fold in np.unique(fold_of):
        rows = fold_of == fold
        positive, negative = (np.flatnonzero(rows & (labels == label)) for label in (1, 0))
        wins = 0.5 + 0.5 * np.sign(
            scores[:, :, positive, None] - scores[:, :, None, negative]
        )  # [curve, layer, positive, negative]
        ahead = np.einsum("bp,clpn->clbn", times[:, positive], wins, optimize=True)
        won += np.einsum("clbn,bn->cbl", ahead, times[:, negative], optimize=True)
        pairs += times[:, positive].sum(axis=1) * times[:, negative].sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(won / pairs[None, :, None])


def half_rises(aurocs: Curves) -> Int[np.ndarray, "*resample"]:
    """Index of the first layer that reaches half of the largest lead over the baseline; 0 where nothing leads."""
    lead = aurocs - _baseline(aurocs)[..., None]
    return np.asarray((lead >= lead.max(axis=-1, keepdims=True) / 2).argmax(axis=-1))


def departures(upstream: Curves, downstream: Curves, margin: float) -> Int[np.ndarray, "*resample"]:
    """Index of the layer from which on, to the last, `downstream` is short of what `upstream` had reached by then.

    Short is by more than `margin`, chance counting as the least that a curve can show, and from the half-rise of
    `upstream` on: before, there is nothing to lose. The number of layers where the last one is not short.
    """
    reached = np.maximum.accumulate(upstream, axis=-1)
    short = reached - np.maximum(downstream, CHANCE) > margin
    to_the_end = np.logical_and.accumulate(short[..., ::-1], axis=-1).sum(axis=-1)
    at_least = np.where(to_the_end, half_rises(upstream), 0)
    return np.asarray(np.maximum(short.shape[-1] - to_the_end, at_least))


def percentiles(values: NDArray[np.generic]) -> tuple[float, float]:
    """The middle 95% of resampled values, ends among them."""
    tail = (1 - LEVEL) / 2
    numbers = values.astype(np.float64)
    low = np.quantile(numbers, tail, method="inverted_cdf")
    high = np.quantile(numbers, 1 - tail, method="inverted_cdf")
    return float(low), float(high)


def _baseline(aurocs: Curves) -> Float[np.ndarray, "*resample"]:
    return np.asarray(np.maximum(aurocs[..., 0], CHANCE))

"""95% intervals of shares, of mean scores and of criterion c, for clustered items that were not trained on."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probes.metrics import criterion, criterion_of_counts
from probes.splits import binary_labels
from probes.uncertainty import (
    FEW_GROUPS,
    LEVEL,
    Interval,
    checked_groups,
    jackknife_variance,
    t_quantile,
)


def rate_interval(successes: ArrayLike, groups: ArrayLike) -> Interval:
    """Share of successes (0/1 or bool `[item]`, a parse rate for example) with clustered items.

    Wilson's interval at the effective sample size that the clustered variance implies, with the t
    quantile (Korn and Graubard 1998); all or none succeeding counts every group once.
    """
    values = binary_labels(successes)
    codes = checked_groups(groups, len(values))
    n_groups = int(codes.max()) + 1
    rate = float(values.mean())
    variance = _cluster_variance((values - rate) / len(values), codes)
    binomial = rate * (1 - rate)
    size = min(binomial / variance, len(values)) if variance > 0 else float(n_groups)
    t = t_quantile(n_groups - 1)
    center = (rate + t**2 / (2 * size)) / (1 + t**2 / size)
    half = t / (1 + t**2 / size) * np.sqrt(binomial / size + t**2 / (4 * size**2))
    return Interval(
        rate,
        float(max(center - half, 0.0)),
        float(min(center + half, 1.0)),
        "cluster Wilson",
        n_groups,
        n_groups < FEW_GROUPS,
    )


def mean_interval(
    values: ArrayLike, groups: ArrayLike, bounds: tuple[float, float] = (-1.0, 1.0)
) -> Interval:
    """Mean of scores `[item]` within `bounds` (-1 to 1 at most), with clustered items.

    The clustered variance with the t quantile. Where all values are equal, the exact binomial bound counts every group
    once.

    Raises:
        ValueError: a value that is not finite or beyond the bounds.
    """
    low, high = bounds
    scores = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(scores).all() and (scores >= low).all() and (scores <= high).all()):
        raise ValueError(f"values: must be finite, from {low:g} to {high:g}")
    codes = checked_groups(groups, len(scores))
    return _mean_interval(scores, codes, "cluster t", bounds)


def rate_difference(first: ArrayLike, second: ArrayLike, groups: ArrayLike) -> Interval:
    """Share of successes of `first` minus that of `second`, both 0/1 `[item]`, on the same items.

    The clustered variance of the paired differences, with the t quantile. Where the two agree by
    the same amount on every item, the exact binomial bound counts every group once.
    """
    a, b = binary_labels(first), binary_labels(second)
    if len(a) != len(b):
        raise ValueError(f"second has {len(b)} items and first {len(a)}; they must be the same")
    codes = checked_groups(groups, len(a))
    return _mean_interval((a - b).astype(np.float64), codes, "paired cluster t", (-1.0, 1.0))


def _mean_interval(
    values: NDArray[np.float64], codes: NDArray[np.int64], method: str, bounds: tuple[float, float]
) -> Interval:
    n_groups = int(codes.max()) + 1
    estimate = float(values.mean())
    variance = _cluster_variance((values - estimate) / len(values), codes)
    if variance > 0:
        half = t_quantile(n_groups - 1) * float(np.sqrt(variance))
    else:
        half = 1 - ((1 - LEVEL) / 2) ** (1 / n_groups)
    return Interval(
        estimate,
        max(estimate - half, bounds[0]),
        min(estimate + half, bounds[1]),
        method,
        n_groups,
        n_groups < FEW_GROUPS,
    )


def criterion_interval(y: ArrayLike, answers: ArrayLike, groups: ArrayLike) -> Interval:
    """Criterion c of yes/no answers `[item]` (see `criterion`), jackknife over groups."""
    labels = binary_labels(y)
    yes = binary_labels(answers)
    if len(yes) != len(labels):
        raise ValueError(f"answers: {len(yes)} of them for {len(labels)} labels; give one an item")
    codes = checked_groups(groups, len(labels))
    n_groups = int(codes.max()) + 1
    estimate = criterion(labels, yes)
    of_group = np.array([np.bincount(codes, labels == label) for label in (0, 1)])
    yes_of_group = np.array([np.bincount(codes, yes * (labels == label)) for label in (0, 1)])
    left_out = criterion_of_counts(
        *(counts.sum(axis=1, keepdims=True) - counts for counts in (yes_of_group, of_group))
    )
    half = t_quantile(n_groups - 1) * float(np.sqrt(jackknife_variance(left_out)))
    return Interval(
        estimate,
        estimate - half,
        estimate + half,
        "jackknife over groups",
        n_groups,
        n_groups < FEW_GROUPS,
    )


def _cluster_variance(influence: NDArray[np.float64], codes: NDArray[np.int64]) -> float:
    sums = np.bincount(codes, weights=influence)
    return float(len(sums) / (len(sums) - 1) * (sums**2).sum())

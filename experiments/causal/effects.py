"""Effects with their intervals and p-values, and the three-valued answer to whether something moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from experiments.records import json_number
from probes import Interval, mean_interval
from probes.uncertainty import FEW_GROUPS, checked_groups, jackknife_variance, t_quantile

Moved = Literal["moves", "does not move", "undecided"]

ALPHA = 0.05
MARGIN = 0.25
"""Standard deviations of the unchanged log-odds over items; a movement decidedly under it is none."""

_DRAWS = 2000


@dataclass(frozen=True)
class Effect:
    """A mean over items, with a cluster interval and, where there are null directions, p-values.

    Attributes:
        estimate, low, high: the mean over all measured items and its 95% interval over groups.
        p: share of null effects at least as far from 0, the effect itself counted (add-one rule); on the items that
            the nulls were measured on.
        p_random, p_shuffled: the same against either kind of null by itself.
        random_level: 95% of the effects of random directions are nearer to 0.
    """

    estimate: float
    low: float
    high: float
    n: int
    n_groups: int
    p: float | None = None
    p_random: float | None = None
    p_shuffled: float | None = None
    n_null: int = 0
    random_level: float | None = None

    def to_json(self) -> dict[str, Any]:
        """An effect row of `causal.json`."""
        row: dict[str, Any] = {
            "estimate": json_number(self.estimate),
            "ci": [json_number(self.low), json_number(self.high)],
            "n": self.n,
            "n_groups": self.n_groups,
            "approximate": self.n_groups < FEW_GROUPS,
            "n_null": self.n_null,
        }
        for name in ("p", "p_random", "p_shuffled", "random_level"):
            if getattr(self, name) is not None:
                row[name] = json_number(getattr(self, name))
        return row


def effect_of(values: Float[np.ndarray, " item"], groups: np.ndarray) -> Effect:
    """The mean of `values` over items, the interval clustered on groups; unbounded values.

    Raises:
        ValueError: fewer than 2 groups, or a value that is not finite.
    """
    interval = cluster_mean(values, groups)
    return Effect(interval.estimate, interval.low, interval.high, len(values), interval.n_groups)


def cluster_mean(values: Float[np.ndarray, " item"], groups: np.ndarray) -> Interval:
    """`probes.mean_interval` of values without bounds; of equal values the interval is the value."""
    values = np.asarray(values, dtype=np.float64)
    codes = checked_groups(groups, len(values))
    if np.ptp(values) == 0:
        value, n_groups = float(values[0]), int(codes.max()) + 1
        return Interval(value, value, value, "constant", n_groups, n_groups < FEW_GROUPS)
    return mean_interval(values, codes, bounds=(-np.inf, np.inf))


def against_nulls(
    effect: Effect,
    on_null_items: float,
    random: Float[np.ndarray, " null"],
    shuffled: Float[np.ndarray, " null"],
) -> Effect:
    """An effect with its two-sided p-values against null effects.

    Args:
        effect: over all items.
        on_null_items: the same over those items that the nulls were measured on.
        random, shuffled: effects of null directions on them.
    """
    together = np.concatenate([random, shuffled])
    return Effect(
        effect.estimate,
        effect.low,
        effect.high,
        effect.n,
        effect.n_groups,
        p=add_one_p(on_null_items, together),
        p_random=add_one_p(on_null_items, random),
        p_shuffled=add_one_p(on_null_items, shuffled),
        n_null=len(together),
        random_level=float(np.quantile(np.abs(random), 1 - ALPHA)),
    )


def add_one_p(value: float, null: Float[np.ndarray, " null"]) -> float:
    """Two-sided: (1 + nulls at least as far from 0) / (1 + nulls) (Phipson and Smyth 2010)."""
    return float((1 + np.sum(np.abs(null) >= abs(value))) / (1 + len(null)))


def moved(effect: Effect, spread: float) -> Moved:
    """Whether a readout moved.

    *Does not move*: the whole interval lies within `MARGIN` times `spread`. That an effect does not beat the nulls is
    no sign of it: a few items, or nulls that reach far, leave any effect unbeaten. *Moves*: the interval is off 0 and
    the effect beats the nulls, random and shuffled ones by themselves as well as together. If both hold, it does not
    move. Anything else is undecided.
    """
    if max(abs(effect.low), abs(effect.high)) <= MARGIN * spread:
        return "does not move"
    beats = all(p is None or p <= ALPHA for p in (effect.p, effect.p_random, effect.p_shuffled))
    off_zero = effect.low > 0 or effect.high < 0
    return "moves" if beats and off_zero else "undecided"


def correlation(
    a: Float[np.ndarray, " item"],
    b: Float[np.ndarray, " item"],
    groups: np.ndarray,
    half: Int[np.ndarray, " item"],
    seed: int,
) -> Effect:
    """Pearson's correlation within halves, with a percentile bootstrap of whole groups.

    Either half was moved along a direction of its own, which may move both readouts farther than the other half's does:
    over all items that would look like moving together. So values are counted from their half's mean, in units of its
    standard deviation; a resample has means of its own. NaN where a readout is constant in a half.

    Args:
        half: 0 or 1 of every item; whole groups.
    """
    codes = checked_groups(groups, len(a))
    n_groups = int(codes.max()) + 1
    drawn = np.random.default_rng(seed).multinomial(
        n_groups, np.full(n_groups, 1 / n_groups), _DRAWS
    )
    whole = np.zeros((3, 1))
    resampled = np.zeros((3, _DRAWS))
    for own in (half == one for one in np.unique(half)):
        if np.ptp(a[own]) == 0 or np.ptp(b[own]) == 0:
            return Effect(np.nan, np.nan, np.nan, len(a), n_groups)
        x, y = ((part[own] - part[own].mean()) / part[own].std() for part in (a, b))
        sums = np.stack(
            [
                np.bincount(codes[own], weights=part, minlength=n_groups)
                for part in (np.ones_like(x), x, y, x * x, y * y, x * y)
            ]
        )
        whole += _centered(sums.sum(axis=1, keepdims=True))
        resampled += _centered(sums @ drawn.T)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = resampled[2] / np.sqrt(resampled[0] * resampled[1])
    low, high = np.nanquantile(found, (0.025, 0.975))
    estimate = float((whole[2] / np.sqrt(whole[0] * whole[1]))[0])
    return Effect(estimate, float(low), float(high), len(a), n_groups)


def _centered(sums: Float[np.ndarray, "moment draw"]) -> Float[np.ndarray, "3 draw"]:
    """Sums of squares of x and of y and of their products about the means, from the sums of 1, x, y, xx, yy and xy."""
    n, x, y, xx, yy, xy = sums
    # A half of which no group was drawn adds nothing.
    n = np.maximum(n, 1)
    found: np.ndarray = np.stack([xx - x * x / n, yy - y * y / n, xy - x * y / n])
    return found


def ratio(
    numerators: Float[np.ndarray, " item"],
    denominators: Float[np.ndarray, " item"],
    groups: np.ndarray,
) -> Effect:
    """Ratio of sums over items, with a jackknife over groups; NaN where the denominators sum to nothing."""
    codes = checked_groups(groups, len(numerators))
    n_groups = int(codes.max()) + 1
    tops, bottoms = (np.bincount(codes, weights=part) for part in (numerators, denominators))
    if not bottoms.sum() > 0 or not (bottoms.sum() - bottoms > 0).all():
        return Effect(np.nan, np.nan, np.nan, len(numerators), n_groups)
    estimate = tops.sum() / bottoms.sum()
    left_out = (tops.sum() - tops) / (bottoms.sum() - bottoms)
    half = t_quantile(n_groups - 1) * np.sqrt(jackknife_variance(left_out))
    return Effect(
        float(estimate),
        float(estimate - half),
        float(estimate + half),
        len(numerators),
        n_groups,
    )


def class_gap(
    values: Float[np.ndarray, " item"], outcome: np.ndarray, groups: np.ndarray
) -> Effect:
    """Mean of the items of outcome 1 minus that of the others, the interval clustered on groups.

    The influence of an item is its deviation from its own class's mean over the size of the class.
    """
    ones = outcome == 1
    means = values[ones].mean(), values[~ones].mean()
    influence = np.where(
        ones, (values - means[0]) / ones.sum(), -(values - means[1]) / (~ones).sum()
    )
    gap = float(means[0] - means[1])
    spread = cluster_mean(influence * len(values), groups)
    half = (spread.high - spread.low) / 2
    return Effect(gap, gap - half, gap + half, len(values), spread.n_groups)

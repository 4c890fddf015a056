"""Effects with their intervals and p-values, and the three-valued answer to whether something moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from experiments.records import json_number
from probes import Interval, mean_interval
from probes.uncertainty import FEW_GROUPS, checked_groups, t_quantile

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

    *Does not move*: the whole interval lies within `MARGIN` times `spread`, or nearer to 0 than the 95th
    percentile of the sizes of random directions' effects (a wide null makes it easy: it is then a matter of power).
    *Moves*: the interval is off 0 and the effect beats the nulls, random and shuffled ones by themselves as well as
    together. If both hold, it does not move. Anything else is undecided.
    """
    farthest = max(abs(effect.low), abs(effect.high))
    if farthest <= max(MARGIN * spread, effect.random_level or 0.0):
        return "does not move"
    beats = all(p is None or p <= ALPHA for p in (effect.p, effect.p_random, effect.p_shuffled))
    off_zero = effect.low > 0 or effect.high < 0
    return "moves" if beats and off_zero else "undecided"


def correlation(
    a: Float[np.ndarray, " item"], b: Float[np.ndarray, " item"], groups: np.ndarray, seed: int
) -> Effect:
    """Pearson's correlation over items, with a percentile bootstrap of whole groups; NaN where one is constant."""
    codes = checked_groups(groups, len(a))
    n_groups = int(codes.max()) + 1
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return Effect(np.nan, np.nan, np.nan, len(a), n_groups)
    sums = np.stack(
        [np.bincount(codes, weights=part) for part in (np.ones_like(a), a, b, a * a, b * b, a * b)]
    )
    drawn = np.random.default_rng(seed).multinomial(
        n_groups, np.full(n_groups, 1 / n_groups), _DRAWS
    )
    found = _correlation(sums @ drawn.T)
    low, high = np.nanquantile(found, (0.025, 0.975))
    estimate = float(_correlation(sums.sum(axis=1)))
    return Effect(estimate, float(low), float(high), len(a), n_groups)


def _correlation(sums: Float[np.ndarray, "moment *draw"]) -> Float[np.ndarray, "*draw"]:
    """Pearson's correlation from the sums of 1, a, b, aa, bb and ab."""
    n, a, b, aa, bb, ab = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = (n * ab - a * b) / np.sqrt((n * aa - a * a) * (n * bb - b * b))
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
    variance = (n_groups - 1) / n_groups * ((left_out - left_out.mean()) ** 2).sum()
    half = t_quantile(n_groups - 1) * np.sqrt(variance)
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

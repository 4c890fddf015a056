"""How many items, in how many groups, separate two AUROCs: sample sizes before the run.

Scores are taken as binormal: normal in either class with equal variance, which fixes every moment
of the AUROC estimates (Obuchowski 1994), their correlation on the same items included. A real
score is not normal; take the number as a plan, and the interval of the run as the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.stats import nct, norm
from scipy.stats import t as student_t

from probes.training_variance import TRAINING
from probes.uncertainty import LEVEL

MOST_GROUPS = 10_000_000


@dataclass(frozen=True)
class Design:
    """How the items of a comparison hang together."""

    group_size: int = 1
    """Items a group."""
    score_icc: float = 0.0
    """Intra-class correlation of the scores, within a class of labels."""
    label_icc: float = 1.0
    """Intra-class correlation of the labels: 1 where the group decides them (the safe assumption),
    0 where they vary as much within groups as between them."""
    positive_rate: float = 0.5
    """Share of items with label 1."""
    score_correlation: float = 0.5
    """Correlation of the two scores of an item, within a class of labels."""
    trained: tuple[bool, bool] = (False, False)
    """Which of the two scores come from a probe trained on the other folds: its training sets add
    their share to the variance, as in `auroc_difference`."""
    n_folds: int = 5
    """Pairs are counted within a fold."""

    def __post_init__(self) -> None:
        for name in ("group_size", "n_folds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("score_icc", "label_icc"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")
        if not 0 < self.positive_rate < 1:
            raise ValueError(f"positive_rate must lie between 0 and 1, got {self.positive_rate}")
        if not -1 <= self.score_correlation <= 1:
            raise ValueError(f"score_correlation must lie in [-1, 1], got {self.score_correlation}")

    @property
    def design_effect(self) -> float:
        """Variance with these groups over that with independent items: 1 + (m - 1) r_score r_label.

        That of a regression slope (Moulton 1986), for an AUROC is one too to first order; with
        labels decided by the group it is Kish's 1 + (m - 1) r.
        """
        return 1 + (self.group_size - 1) * self.score_icc * self.label_icc


def difference_error(first: float, second: float, n_groups: int, design: Design) -> float:
    """Standard error of the paired difference of two same-fold AUROCs.

    Args:
        first, second: the expected AUROCs, in (0, 1).
        n_groups: groups of `design.group_size` items.
    """
    deltas = [_delta(name, value) for name, value in (("first", first), ("second", second))]
    n = n_groups * design.group_size / design.n_folds
    positives, negatives = n * design.positive_rate, n * (1 - design.positive_rate)

    def covariance(i: int, j: int) -> float:
        correlation = 1.0 if i == j else design.score_correlation
        same_pair = _win_covariance(deltas[i], deltas[j], correlation)
        shared_item = _win_covariance(deltas[i], deltas[j], correlation / 2)
        others = max(positives - 1, 0) + max(negatives - 1, 0)
        return (same_pair + others * shared_item) / (positives * negatives)

    def variance(weights: tuple[float, float]) -> float:
        return sum(
            a * b * covariance(i, j) for i, a in enumerate(weights) for j, b in enumerate(weights)
        )

    total = variance((1.0, -1.0))
    total += TRAINING * variance((float(design.trained[0]), -float(design.trained[1])))
    return float(np.sqrt(max(total, 0.0) / design.n_folds * design.design_effect))


def difference_power(first: float, second: float, n_groups: int, design: Design) -> float:
    """Probability that the 95% interval of the difference leaves 0 out, on the right side.

    The difference over its error is taken as t with `n_groups` - 1 degrees of freedom.
    """
    if n_groups < 2:
        raise ValueError(f"n_groups must be at least 2, got {n_groups}")
    error = difference_error(first, second, n_groups, design)
    gap = abs(first - second)
    if error == 0:
        return float(gap > 0)
    bound = student_t.ppf((1 + LEVEL) / 2, n_groups - 1)
    # The noncentral t of scipy loses its tail where the power is 1 anyway.
    if gap / error > 30:
        return 1.0
    return float(nct.sf(bound, n_groups - 1, gap / error))


@dataclass(frozen=True)
class SampleSize:
    """The fewest groups that reach the power asked for."""

    n_items: int
    n_groups: int
    power: float
    """At this size."""


def items_needed(
    first: float, second: float, design: Design | None = None, *, power: float = 0.8
) -> SampleSize:
    """The fewest items with which `difference_power` reaches `power`.

    Raises ValueError for equal AUROCs, a power outside (0, 1), or more than `MOST_GROUPS` groups.
    """
    plan = Design() if design is None else design
    if not 0 < power < 1:
        raise ValueError(f"power must lie between 0 and 1, got {power}")
    if first == second:
        raise ValueError(f"first and second are both {first}; no number of items separates them")

    def reached(n_groups: int) -> bool:
        return difference_power(first, second, n_groups, plan) >= power

    # One positive and one negative in every fold, or there is no pair to count.
    rarest = min(plan.positive_rate, 1 - plan.positive_rate)
    low = max(int(np.ceil(plan.n_folds / rarest / plan.group_size)), 2)
    high = low
    while not reached(high):
        low, high = high, 2 * high
        if high > MOST_GROUPS:
            raise ValueError(f"first {first} and second {second} need over {MOST_GROUPS} groups")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return SampleSize(high * plan.group_size, high, difference_power(first, second, high, plan))


def _delta(name: str, auroc: float) -> float:
    if not 0 < auroc < 1:
        raise ValueError(f"{name} must be an AUROC between 0 and 1, got {auroc}")
    return float(norm.ppf(auroc))


def _win_covariance(first: float, second: float, correlation: float) -> float:
    """Covariance of [U < first] and [V < second] for standard normal U and V (Sheppard 1899).

    The bivariate normal distribution function less the product of the marginal ones, as an
    integral over the angle whose sine is the correlation.
    """

    def density(angle: float) -> float:
        square = first**2 + second**2 - 2 * first * second * np.sin(angle)
        return float(np.exp(-square / (2 * np.cos(angle) ** 2)) / (2 * np.pi))

    return float(quad(density, 0, np.arcsin(correlation))[0])

"""Scores of yes/no predictions from the counts of a two-by-two table, with intervals clustered on groups.

Balanced accuracy is the mean of recall and specificity; kappa is Cohen's (1960); d-prime and criterion c have the
log-linear correction (Hautus 1995), as `probes.d_prime` and `probes.criterion`. From counts, so that a jackknife over
some hundred groups is one array operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import norm

from experiments.self_execution.shares import clustered
from probes import FEW_GROUPS, Interval, mean_interval, rate_interval
from probes.uncertainty import t_quantile

UNKNOWN = -1
"""Of a prediction: there is none; wrong on every item."""

Counts = Float[np.ndarray, "*batch 4"]
"""True positives, false positives, true negatives, false negatives."""

COMPARED = ("accuracy", "balanced_accuracy", "kappa")
"""The scores whose differences between predictors are shown."""


@dataclass(frozen=True)
class Compared:
    """Predictors of the same yes/no outcomes, each score with its interval."""

    n_items: int
    n_groups: int
    scores: Mapping[str, Mapping[str, Interval]]
    """By predictor, then by score; nan where the items do not define it, or its interval."""
    self_minus: Mapping[str, Mapping[str, Interval]]
    """The score of the predictor `self` minus that of another, paired."""


def compare(
    outcome: Int[np.ndarray, "item"],
    predictions: Mapping[str, Int[np.ndarray, "item"]],
    groups: NDArray[np.str_],
) -> Compared:
    """Score predictions (0, 1 or `UNKNOWN`) of outcomes (0 or 1), `self` against every other.

    Raises:
        ValueError: no item.
    """
    if not len(outcome):
        raise ValueError("items: none to compare predictions on")
    said = {
        name: np.where(one == UNKNOWN, 1 - outcome, one).astype(np.int64)
        for name, one in predictions.items()
    }
    return Compared(
        n_items=len(outcome),
        n_groups=len(set(groups.tolist())),
        scores={name: yes_no_scores(outcome, one, groups) for name, one in said.items()},
        self_minus={
            name: {
                score: _difference(score, outcome, said["self"], one, groups) for score in COMPARED
            }
            for name, one in said.items()
            if name != "self"
        },
    )


def yes_no_scores(
    outcome: Int[np.ndarray, "item"], said: Int[np.ndarray, "item"], groups: NDArray[np.str_]
) -> dict[str, Interval]:
    """Every score of 0/1 predictions with its 95% interval.

    Shares (accuracy, precision, recall, specificity) have a cluster Wilson interval, the others a jackknife over
    groups: balanced accuracy and F1 on the logit scale.
    """
    right = said == outcome
    shares = {
        "accuracy": np.ones(len(outcome), dtype=bool),
        "precision": said == 1,
        "recall": outcome == 1,
        "specificity": outcome == 0,
    }
    table = grouped_counts(outcome, said, groups)
    return {
        **{name: clustered(right[of], groups[of], rate_interval) for name, of in shares.items()},
        **{name: _jackknife(name, table) for name in _FORMULAS if name != "accuracy"},
    }


def grouped_counts(
    outcome: Int[np.ndarray, "item"], said: Int[np.ndarray, "item"], groups: NDArray[np.str_]
) -> Float[np.ndarray, "group 4"]:
    """The two-by-two table of every group."""
    names, codes = np.unique(groups, return_inverse=True)
    cells = np.array(
        [
            (said == 1) & (outcome == 1),
            (said == 1) & (outcome == 0),
            (said == 0) & (outcome == 0),
            (said == 0) & (outcome == 1),
        ]
    )
    return np.array([np.bincount(codes, weights=cell, minlength=len(names)) for cell in cells]).T


def score_counts(name: str, counts: Counts) -> Float[np.ndarray, "*batch"]:
    """One score of tables, nan where it is not defined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(_FORMULAS[name](*np.moveaxis(counts, -1, 0)))


Cell = NDArray[np.float64]


def _accuracy(tp: Cell, fp: Cell, tn: Cell, fn: Cell) -> Cell:
    return (tp + tn) / (tp + fp + tn + fn)


def _balanced(tp: Cell, fp: Cell, tn: Cell, fn: Cell) -> Cell:
    return (tp / (tp + fn) + tn / (tn + fp)) / 2


def _f1(tp: Cell, fp: Cell, tn: Cell, fn: Cell) -> Cell:
    return 2 * tp / (2 * tp + fp + fn)


def _kappa(tp: Cell, fp: Cell, tn: Cell, fn: Cell) -> Cell:
    chance = (tp + fp) * (tp + fn) + (tn + fn) * (tn + fp)
    n = tp + fp + tn + fn
    return (n * (tp + tn) - chance) / (n**2 - chance)


def _z_rates(tp: Cell, fp: Cell, tn: Cell, fn: Cell) -> tuple[Cell, Cell]:
    hit, false_alarm = (tp + 0.5) / (tp + fn + 1), (fp + 0.5) / (fp + tn + 1)
    return norm.ppf(hit), norm.ppf(false_alarm)


def _d_prime(tp: Cell, fp: Cell, tn: Cell, fn: Cell) -> Cell:
    hit, false_alarm = _z_rates(tp, fp, tn, fn)
    return hit - false_alarm


def _criterion(tp: Cell, fp: Cell, tn: Cell, fn: Cell) -> Cell:
    hit, false_alarm = _z_rates(tp, fp, tn, fn)
    return -(hit + false_alarm) / 2


_FORMULAS: dict[str, Callable[[Cell, Cell, Cell, Cell], Cell]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced,
    "f1": _f1,
    "kappa": _kappa,
    "d_prime": _d_prime,
    "criterion": _criterion,
}
_ON_LOGITS = {"balanced_accuracy", "f1"}
_NEEDS_BOTH = {"balanced_accuracy", "d_prime", "criterion"}
"""Scores that say nothing where every outcome is the same."""


def _jackknife(name: str, table: Float[np.ndarray, "group 4"]) -> Interval:
    total = table.sum(axis=0)
    estimate, left_out = _defined(name, total), _defined(name, total - table)
    if name in _ON_LOGITS and 0 < estimate < 1:
        with np.errstate(divide="ignore"):
            half = _half(logit(left_out))
        low, high = (float(expit(logit(estimate) + sign * half)) for sign in (-1, 1))
        return Interval(
            float(estimate), low, high, "jackknife, logit", len(table), len(table) < FEW_GROUPS
        )
    return _interval(float(estimate), _half(left_out), "jackknife", len(table))


def _difference(
    name: str,
    outcome: Int[np.ndarray, "item"],
    first: Int[np.ndarray, "item"],
    second: Int[np.ndarray, "item"],
    groups: NDArray[np.str_],
) -> Interval:
    if name == "accuracy":
        difference = (first == outcome).astype(float) - (second == outcome)
        return clustered(difference, groups, mean_interval)
    tables = [grouped_counts(outcome, one, groups) for one in (first, second)]
    totals = [table.sum(axis=0) for table in tables]
    estimate = _defined(name, totals[0]) - _defined(name, totals[1])
    left_out = _defined(name, totals[0] - tables[0]) - _defined(name, totals[1] - tables[1])
    return _interval(float(estimate), _half(left_out), "paired jackknife", len(tables[0]))


def _defined(name: str, counts: Counts) -> Float[np.ndarray, "*batch"]:
    tp, fp, tn, fn = np.moveaxis(counts, -1, 0)
    one_class = (tp + fn == 0) | (fp + tn == 0)
    score = score_counts(name, counts)
    return np.where(one_class, np.nan, score) if name in _NEEDS_BOTH else score


def _half(left_out: Float[np.ndarray, "group"]) -> float:
    """Half the width of a jackknife interval; nan where leaving a group out changes nothing or undefines the score."""
    n = len(left_out)
    if n < 2 or not np.isfinite(left_out).all():
        return np.nan
    variance = (n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()
    return float(t_quantile(n - 1) * np.sqrt(variance)) if variance > 0 else np.nan


def _interval(estimate: float, half: float, method: str, n_groups: int) -> Interval:
    return Interval(
        estimate, estimate - half, estimate + half, method, n_groups, n_groups < FEW_GROUPS
    )

"""95% intervals for clustered items, under two estimands that are never mixed up.

*fixed*: the scores come from something that was not trained here (words, a saved probe).
*procedure*: the scores come from a probe trained on this many items, and the number is what such
training gives on average over training sets. A plain bootstrap of out-of-fold scores leaves out the
training sets and covers 0.86-0.91 instead of 0.95.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student_t

from probes.same_fold_pairs import SameFoldPairs, Variance
from probes.splits import binary_labels, group_codes
from probes.training_variance import (
    FEW_REGROUPINGS,
    TRAINING,
    left_out_aurocs,
    procedure_variance,
)

Estimand = Literal["fixed", "procedure"]
LEVEL = 0.95
FEW_GROUPS = 30
HIGH_AUROC = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval."""

    estimate: float
    low: float
    high: float
    method: str
    n_groups: int
    approximate: bool
    """Fewer than 30 groups or 5 regroupings, or an AUROC above 0.95: coverage not vouched for."""


def jackknife_variance(left_out: NDArray[np.float64]) -> float:
    """Variance of an estimate, from what it is without each group in turn `[group]` (Efron and Stein 1981)."""
    n_groups = len(left_out)
    return float((n_groups - 1) / n_groups * ((left_out - left_out.mean()) ** 2).sum())


def auroc_interval(
    y: ArrayLike,
    scores: ArrayLike,
    folds: ArrayLike,
    groups: ArrayLike,
    *,
    estimand: Estimand,
    training_scores: ArrayLike | None = None,
) -> Interval:
    """Same-fold AUROC with a clustered interval on the logit scale.

    Args:
        y: 0/1 labels `[item]`.
        scores: `[item]` or `[regrouping, item]`.
        folds: `[item]` or `[regrouping, item]`; a single row is used for all of the other's.
        groups: group of every item `[item]`.
        estimand: "fixed" or "procedure" (see the module); a procedure wants >= 5 regroupings.
        training_scores: of a procedure, `[regrouping, fold, item]` (`NestedResult.training_scores`): what its training
            sets add to the variance is measured by them, else bounded (see `training_variance`).

    Variance: cluster DeLong with pairs that share groups twice counted once, mean over regroupings. At an AUROC of
    exactly 0 or 1 the other limit is the exact binomial one over the groups of the rarer class.
    """
    labels = binary_labels(y)
    codes = checked_groups(groups, len(labels))
    _check_estimand(estimand)
    score_rows, fold_rows = _align(scores, folds, len(labels))
    aurocs, variances = [], []
    for values, fold_of in zip(score_rows, fold_rows, strict=True):
        pairs = SameFoldPairs.within(labels, fold_of)
        scored = pairs.score(values)
        aurocs.append(scored.auroc)
        variances.append(pairs.variance(scored.residuals, codes))
    variance = _mean_variance(variances)
    if estimand == "procedure" and training_scores is not None:
        left_out = left_out_aurocs(labels, training_scores, fold_rows)
        variance = procedure_variance(variance, np.array(aurocs), left_out)
    elif estimand == "procedure":
        variance = variance._replace(value=(1 + TRAINING) * variance.value)
    estimate = float(np.mean(aurocs))
    n_groups = int(codes.max()) + 1
    if 0 < estimate < 1:
        half = t_quantile(variance.degrees) * np.sqrt(variance.value) / (estimate * (1 - estimate))
        logit = np.log(estimate / (1 - estimate))
        low, high = 1 / (1 + np.exp(half - logit)), 1 / (1 + np.exp(-half - logit))
    else:
        fewest = min(len(np.unique(codes[labels == label])) for label in (0, 1))
        bound = ((1 - LEVEL) / 2) ** (1 / fewest)
        low, high = (bound, 1.0) if estimate == 1 else (0.0, 1 - bound)
    return Interval(
        estimate,
        float(low),
        float(high),
        _method("cluster DeLong, logit", estimand, len(aurocs)),
        n_groups,
        _is_approximate(estimand, n_groups, len(aurocs), estimate),
    )


def auroc_difference(
    y: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    folds: ArrayLike,
    groups: ArrayLike,
    *,
    estimand: Estimand,
    trained: tuple[bool, bool] = (True, True),
    training_scores: tuple[ArrayLike, ArrayLike] | None = None,
) -> Interval:
    """Same-fold AUROC of `first` minus that of `second`, on the same items, folds and pairs.

    Arguments as in `auroc_interval`, and

    Args:
        trained: which of the two was trained here, so that its training sets add to the variance;
            the estimand is "procedure" as soon as one of them was, and "fixed" trains none.
        training_scores: of a procedure, those of both; of a score that was not trained, the score itself.
    """
    labels = binary_labels(y)
    codes = checked_groups(groups, len(labels))
    _check_estimand(estimand)
    n_regroupings = max(np.atleast_2d(rows).shape[0] for rows in (first, second, folds))
    folds = np.broadcast_to(np.asarray(folds), (n_regroupings, len(labels)))
    first_rows, fold_rows = _align(first, folds, len(labels))
    second_rows, _ = _align(second, folds, len(labels))
    aurocs, variances = [], []
    for a, b, fold_of in zip(first_rows, second_rows, fold_rows, strict=True):
        pairs = SameFoldPairs.within(labels, fold_of)
        scored = pairs.score(a), pairs.score(b)
        aurocs.append([one.auroc for one in scored])
        residuals = [
            np.stack(pair) for pair in zip(*(one.residuals for one in scored), strict=True)
        ]
        variance = pairs.variance([r[0] - r[1] for r in residuals], codes)
        if estimand == "procedure" and training_scores is None:
            from_training = [r[0] * trained[0] - r[1] * trained[1] for r in residuals]
            added = TRAINING * pairs.variance(from_training, codes).value
            variance = variance._replace(value=variance.value + added)
        variances.append(variance)
    variance = _mean_variance(variances)
    if estimand == "procedure" and training_scores is not None:
        without = [left_out_aurocs(labels, scores, fold_rows) for scores in training_scores]
        gaps = np.array([a - b for a, b in aurocs])
        variance = procedure_variance(variance, gaps, without[0] - without[1])
    means = np.mean(aurocs, axis=0)
    estimate = float(means[0] - means[1])
    n_groups = int(codes.max()) + 1
    half = t_quantile(variance.degrees) * float(np.sqrt(variance.value))
    return Interval(
        estimate,
        estimate - half,
        estimate + half,
        _method("paired cluster DeLong", estimand, n_regroupings),
        n_groups,
        _is_approximate(estimand, n_groups, n_regroupings, float(means.max())),
    )


def _mean_variance(variances: Sequence[Variance]) -> Variance:
    value, degrees = np.mean(variances, axis=0)
    return Variance(float(value), float(degrees))


def checked_groups(groups: ArrayLike, n_items: int) -> NDArray[np.int64]:
    """Groups as integers 0..G-1; ValueError for another number of them than of items, and for fewer than 2."""
    codes = group_codes(groups)
    if len(codes) != n_items:
        raise ValueError(f"groups: {len(codes)} of them for {n_items} items; give one an item")
    if codes.max() < 1:
        raise ValueError("groups: an interval needs at least 2 groups, got 1")
    return codes


def _check_estimand(estimand: str) -> None:
    if estimand not in ("fixed", "procedure"):
        raise ValueError(f"estimand must be 'fixed' or 'procedure', got {estimand!r}")


def _align(
    scores: ArrayLike, folds: ArrayLike, n_items: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    score_rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    fold_rows = np.atleast_2d(np.asarray(folds))
    n_rows = max(len(score_rows), len(fold_rows))
    for name, rows in (("scores", score_rows), ("folds", fold_rows)):
        if rows.ndim != 2 or rows.shape[1] != n_items or len(rows) not in (1, n_rows):
            raise ValueError(
                f"{name} has shape {rows.shape}; needed is [item] or [regrouping, item] with "
                f"{n_items} items and {n_rows} regroupings"
            )
    if not np.isfinite(score_rows).all():
        raise ValueError("scores hold nan or inf; give unscored items the worst score or drop them")
    return (
        np.broadcast_to(score_rows, (n_rows, n_items)),
        np.broadcast_to(fold_rows, (n_rows, n_items)),
    )


def t_quantile(degrees: float) -> float:
    """Of Student's t, the upper limit of a 95% interval."""
    return float(student_t.ppf((1 + LEVEL) / 2, degrees))


def _method(name: str, estimand: Estimand, n_regroupings: int) -> str:
    return f"{name}, {estimand}" + (
        f" over {n_regroupings} regroupings" if estimand == "procedure" else ""
    )


def _is_approximate(
    estimand: Estimand, n_groups: int, n_regroupings: int, highest_auroc: float
) -> bool:
    few = estimand == "procedure" and n_regroupings < FEW_REGROUPINGS
    return few or n_groups < FEW_GROUPS or highest_auroc > HIGH_AUROC

"""95% intervals for clustered items, under two estimands that are never mixed up.

*fixed*: the scores come from something that was not trained here (words, a saved probe).
*procedure*: the scores come from a probe trained on this many items, and the number is what such
training gives on average over training sets. A plain bootstrap of out-of-fold scores leaves out the
training sets and covers 0.86-0.91 instead of 0.95.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from scipy.stats import t as student_t

from probes.metrics import criterion
from probes.splits import binary_labels, group_codes

Estimand = Literal["fixed", "procedure"]
LEVEL = 0.95
FEW_GROUPS = 30
HIGH_AUROC = 0.95
FEW_REGROUPINGS = 5


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval."""

    estimate: float
    low: float
    high: float
    method: str
    n_groups: int
    approximate: bool
    """Fewer than 30 groups, an AUROC above 0.95, or too few regroupings: coverage not vouched for."""


def auroc_interval(
    y: ArrayLike,
    scores: ArrayLike,
    folds: ArrayLike,
    groups: ArrayLike,
    *,
    estimand: Estimand,
) -> Interval:
    """Same-fold AUROC with a clustered interval on the logit scale.

    Args:
        y: 0/1 labels `[item]`.
        scores: `[item]` or `[regrouping, item]`.
        folds: `[item]` or `[regrouping, item]`; a single row is used for all of the other's.
        groups: group of every item `[item]`.
        estimand: "fixed" or "procedure" (see the module); a procedure wants >= 5 regroupings.

    Variance: cluster DeLong, `G/(G-1) * sum_g (sum of its items' influences)^2`, mean over
    regroupings, times `1 + n_test/n_train` for a procedure (Nadeau and Bengio 2003). At an AUROC of
    exactly 0 or 1 the other limit is the exact binomial one over the groups of the rarer class.
    """
    labels = binary_labels(y)
    codes = group_codes(groups)
    score_rows, fold_rows = _align(scores, folds, len(labels))
    thetas, influences = _influences(labels, score_rows, fold_rows)
    estimate = float(thetas.mean())
    n_groups = int(codes.max()) + 1
    error = _standard_error(influences, codes, fold_rows, estimand)
    if 0 < estimate < 1:
        half = _t_quantile(n_groups) * error / (estimate * (1 - estimate))
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
        _method("cluster DeLong, logit", estimand, len(thetas)),
        n_groups,
        _is_approximate(estimand, n_groups, len(thetas), estimate),
    )


def auroc_difference(
    y: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    folds: ArrayLike,
    groups: ArrayLike,
    *,
    estimand: Estimand,
) -> Interval:
    """Same-fold AUROC of `first` minus that of `second`, on the same items, folds and pairs.

    Arguments as in `auroc_interval`; a predictor that was not trained here is given as `[item]`
    and used for all regroupings. The estimand is "procedure" as soon as one of the two is.
    """
    labels = binary_labels(y)
    codes = group_codes(groups)
    first_rows, folds_first = _align(first, folds, len(labels))
    second_rows, folds_second = _align(second, folds, len(labels))
    n_regroupings = max(len(first_rows), len(second_rows))
    fold_rows = folds_first if len(folds_first) == n_regroupings else folds_second
    first_rows, second_rows = (
        np.broadcast_to(rows, fold_rows.shape) for rows in (first_rows, second_rows)
    )
    theta_first, influence_first = _influences(labels, first_rows, fold_rows)
    theta_second, influence_second = _influences(labels, second_rows, fold_rows)
    estimate = float((theta_first - theta_second).mean())
    n_groups = int(codes.max()) + 1
    error = _standard_error(influence_first - influence_second, codes, fold_rows, estimand)
    half = _t_quantile(n_groups) * error
    highest = max(theta_first.mean(), theta_second.mean())
    return Interval(
        estimate,
        float(estimate - half),
        float(estimate + half),
        _method("paired cluster DeLong", estimand, n_regroupings),
        n_groups,
        _is_approximate(estimand, n_groups, n_regroupings, float(highest)),
    )


def rate_interval(successes: ArrayLike, groups: ArrayLike) -> Interval:
    """Share of successes (0/1 or bool `[item]`, a parse rate for example) with clustered items.

    Wilson's interval at the effective sample size that the clustered variance implies, with the t
    quantile (Korn and Graubard 1998); all or none succeeding counts every group once.
    """
    values = binary_labels(successes)
    codes = group_codes(groups)
    n_groups = int(codes.max()) + 1
    rate = float(values.mean())
    variance = _cluster_variance((values - rate) / len(values), codes)
    binomial = rate * (1 - rate)
    size = min(binomial / variance, len(values)) if variance > 0 else float(n_groups)
    t = _t_quantile(n_groups)
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


def criterion_interval(y: ArrayLike, answers: ArrayLike, groups: ArrayLike) -> Interval:
    """Criterion c of yes/no answers `[item]` (see `criterion`), jackknife over groups."""
    labels = binary_labels(y)
    yes = binary_labels(answers)
    codes = group_codes(groups)
    n_groups = int(codes.max()) + 1
    if n_groups < 2:
        raise ValueError("groups: an interval needs at least 2 groups, got 1")
    estimate = criterion(labels, yes)
    left_out = np.array([criterion(labels[codes != g], yes[codes != g]) for g in range(n_groups)])
    variance = (n_groups - 1) / n_groups * ((left_out - left_out.mean()) ** 2).sum()
    half = _t_quantile(n_groups) * float(np.sqrt(variance))
    return Interval(
        estimate,
        estimate - half,
        estimate + half,
        "jackknife over groups",
        n_groups,
        n_groups < FEW_GROUPS,
    )


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


def _influences(
    labels: NDArray[np.int64], scores: NDArray[np.float64], folds: NDArray[np.int64]
) -> tuple[Float[np.ndarray, "regrouping"], Float[np.ndarray, "regrouping item"]]:
    """AUROC of every regrouping and each item's share in its error.

    An item's influence is the sum of (win - AUROC) over its same-fold opposite-class pairs, over
    the number of all pairs (Hajek projection; DeLong's placements where there is one fold).
    """
    thetas = np.empty(len(scores))
    influences = np.zeros(scores.shape)
    for r, (values, fold_of) in enumerate(zip(scores, folds, strict=True)):
        wins = np.zeros(len(labels))
        opponents = np.zeros(len(labels))
        for fold in np.unique(fold_of):
            rows = np.flatnonzero(fold_of == fold)
            wins[rows], opponents[rows] = _wins_of_each(labels[rows], values[rows])
        positive = labels == 1
        n_pairs = opponents[positive].sum()
        if n_pairs == 0:
            raise ValueError("y: no fold holds both classes, so there is no pair to score")
        thetas[r] = wins[positive].sum() / n_pairs
        influences[r] = (wins - thetas[r] * opponents) / n_pairs
    return thetas, influences


def _wins_of_each(
    labels: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of every item: in how many of its opposite-class pairs the positive wins; how many it has."""
    positive = labels == 1
    n_positive = int(positive.sum())
    n_negative = len(labels) - n_positive
    overall = rankdata(values)
    wins = np.empty(len(labels))
    wins[positive] = overall[positive] - rankdata(values[positive])
    wins[~positive] = n_positive - (overall[~positive] - rankdata(values[~positive]))
    return wins, np.where(positive, n_negative, n_positive).astype(np.float64)


def _cluster_variance(influence: NDArray[np.float64], codes: NDArray[np.int64]) -> float:
    sums = np.bincount(codes, weights=influence)
    if len(sums) < 2:
        raise ValueError("groups: an interval needs at least 2 groups, got 1")
    return float(len(sums) / (len(sums) - 1) * (sums**2).sum())


def _standard_error(
    influences: NDArray[np.float64],
    codes: NDArray[np.int64],
    folds: NDArray[np.int64],
    estimand: Estimand,
) -> float:
    if estimand not in ("fixed", "procedure"):
        raise ValueError(f"estimand must be 'fixed' or 'procedure', got {estimand!r}")
    variance = float(np.mean([_cluster_variance(row, codes) for row in influences]))
    if estimand == "procedure":
        n_folds = np.mean([len(np.unique(row)) for row in folds])
        variance *= 1 + 1 / (n_folds - 1)
    return float(np.sqrt(variance))


def _t_quantile(n_groups: int) -> float:
    return float(student_t.ppf((1 + LEVEL) / 2, n_groups - 1))


def _method(name: str, estimand: Estimand, n_regroupings: int) -> str:
    return f"{name}, {estimand}" + (
        f" over {n_regroupings} regroupings" if estimand == "procedure" else ""
    )


def _is_approximate(
    estimand: Estimand, n_groups: int, n_regroupings: int, highest_auroc: float
) -> bool:
    few = estimand == "procedure" and n_regroupings < FEW_REGROUPINGS
    return few or n_groups < FEW_GROUPS or highest_auroc > HIGH_AUROC

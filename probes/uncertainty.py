"""95% intervals for clustered items, under two estimands that are never mixed up.

*fixed*: the scores come from something that was not trained here (words, a saved probe).
*procedure*: the scores come from a probe trained on this many items, and the number is what such
training gives on average over training sets. A plain bootstrap of out-of-fold scores leaves out the
training sets and covers 0.86-0.91 instead of 0.95.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.stats import t as student_t

from probes.metrics import criterion
from probes.splits import binary_labels, group_codes

Estimand = Literal["fixed", "procedure"]
LEVEL = 0.95
FEW_GROUPS = 30
HIGH_AUROC = 0.95
FEW_REGROUPINGS = 5
TRAINING = 1.0
"""Variance from training sets, as a multiple of the variance from test items.

Without signal a score is a sum over (test item, training item) of terms that are symmetric in the
two, and cross-validation meets every such pair twice, once in either role: the variance is twice
what it is with the training rows held fixed. With signal it is somewhat less than that.
"""


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

    Variance: cluster DeLong with pairs that share groups twice counted once, mean over regroupings;
    for a procedure the training sets' share (`TRAINING`) is added. At an AUROC of exactly 0 or 1
    the other limit is the exact binomial one over the groups of the rarer class.
    """
    labels = binary_labels(y)
    codes = _checked_groups(groups)
    _check_estimand(estimand)
    score_rows, fold_rows = _align(scores, folds, len(labels))
    aurocs, variances = [], []
    for values, fold_of in zip(score_rows, fold_rows, strict=True):
        pairs = _Pairs.within(labels, fold_of)
        scored = pairs.score(values)
        aurocs.append(scored.auroc)
        variances.append(pairs.variance(scored.residuals, codes))
    estimate = float(np.mean(aurocs))
    n_groups = int(codes.max()) + 1
    inflation = 1 + TRAINING if estimand == "procedure" else 1.0
    error = float(np.sqrt(np.mean([one.value for one in variances]) * inflation))
    degrees = float(np.mean([one.degrees for one in variances]))
    if 0 < estimate < 1:
        half = _t_quantile(degrees) * error / (estimate * (1 - estimate))
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
) -> Interval:
    """Same-fold AUROC of `first` minus that of `second`, on the same items, folds and pairs.

    Arguments as in `auroc_interval`, and

    Args:
        trained: which of the two was trained here, so that its training sets add to the variance;
            the estimand is "procedure" as soon as one of them was, and "fixed" trains none.
    """
    labels = binary_labels(y)
    codes = _checked_groups(groups)
    _check_estimand(estimand)
    n_regroupings = max(np.atleast_2d(rows).shape[0] for rows in (first, second, folds))
    folds = np.broadcast_to(np.asarray(folds), (n_regroupings, len(labels)))
    first_rows, fold_rows = _align(first, folds, len(labels))
    second_rows, _ = _align(second, folds, len(labels))
    aurocs, variances = [], []
    for a, b, fold_of in zip(first_rows, second_rows, fold_rows, strict=True):
        pairs = _Pairs.within(labels, fold_of)
        scored = pairs.score(a), pairs.score(b)
        aurocs.append([one.auroc for one in scored])
        residuals = [
            np.stack(pair) for pair in zip(*(one.residuals for one in scored), strict=True)
        ]
        variance = pairs.variance([r[0] - r[1] for r in residuals], codes)
        if estimand == "procedure":
            from_training = [r[0] * trained[0] - r[1] * trained[1] for r in residuals]
            added = TRAINING * pairs.variance(from_training, codes).value
            variance = variance._replace(value=variance.value + added)
        variances.append(variance)
    means = np.mean(aurocs, axis=0)
    estimate = float(means[0] - means[1])
    n_groups = int(codes.max()) + 1
    degrees = float(np.mean([one.degrees for one in variances]))
    half = _t_quantile(degrees) * float(np.sqrt(np.mean([one.value for one in variances])))
    return Interval(
        estimate,
        estimate - half,
        estimate + half,
        _method("paired cluster DeLong", estimand, n_regroupings),
        n_groups,
        _is_approximate(estimand, n_groups, n_regroupings, float(means.max())),
    )


def rate_interval(successes: ArrayLike, groups: ArrayLike) -> Interval:
    """Share of successes (0/1 or bool `[item]`, a parse rate for example) with clustered items.

    Wilson's interval at the effective sample size that the clustered variance implies, with the t
    quantile (Korn and Graubard 1998); all or none succeeding counts every group once.
    """
    values = binary_labels(successes)
    codes = _checked_groups(groups)
    n_groups = int(codes.max()) + 1
    rate = float(values.mean())
    variance = _cluster_variance((values - rate) / len(values), codes)
    binomial = rate * (1 - rate)
    size = min(binomial / variance, len(values)) if variance > 0 else float(n_groups)
    t = _t_quantile(n_groups - 1)
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


def rate_difference(first: ArrayLike, second: ArrayLike, groups: ArrayLike) -> Interval:
    """Share of successes of `first` minus that of `second`, both 0/1 `[item]`, on the same items.

    The clustered variance of the paired differences, with the t quantile. Where the two agree by
    the same amount on every item, the exact binomial bound counts every group once.
    """
    a, b = binary_labels(first), binary_labels(second)
    if len(a) != len(b):
        raise ValueError(f"second has {len(b)} items and first {len(a)}; they must be the same")
    codes = _checked_groups(groups)
    n_groups = int(codes.max()) + 1
    differences = (a - b).astype(np.float64)
    estimate = float(differences.mean())
    variance = _cluster_variance((differences - estimate) / len(differences), codes)
    if variance > 0:
        half = _t_quantile(n_groups - 1) * float(np.sqrt(variance))
    else:
        half = 1 - ((1 - LEVEL) / 2) ** (1 / n_groups)
    return Interval(
        estimate,
        max(estimate - half, -1.0),
        min(estimate + half, 1.0),
        "paired cluster t",
        n_groups,
        n_groups < FEW_GROUPS,
    )


def criterion_interval(y: ArrayLike, answers: ArrayLike, groups: ArrayLike) -> Interval:
    """Criterion c of yes/no answers `[item]` (see `criterion`), jackknife over groups."""
    labels = binary_labels(y)
    yes = binary_labels(answers)
    codes = _checked_groups(groups)
    n_groups = int(codes.max()) + 1
    estimate = criterion(labels, yes)
    left_out = np.array([criterion(labels[codes != g], yes[codes != g]) for g in range(n_groups)])
    variance = (n_groups - 1) / n_groups * ((left_out - left_out.mean()) ** 2).sum()
    half = _t_quantile(n_groups - 1) * float(np.sqrt(variance))
    return Interval(
        estimate,
        estimate - half,
        estimate + half,
        "jackknife over groups",
        n_groups,
        n_groups < FEW_GROUPS,
    )


def _checked_groups(groups: ArrayLike) -> NDArray[np.int64]:
    codes = group_codes(groups)
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


class _Variance(NamedTuple):
    value: float
    degrees: float


@dataclass(frozen=True)
class _Scored:
    """One predictor in one regrouping: its AUROC and every pair's share in it."""

    auroc: float
    residuals: list[NDArray[np.float64]]
    """A matrix `[positive, negative]` a fold of (win - AUROC) / number of all pairs."""


@dataclass(frozen=True)
class _Pairs:
    """The rows of positives and of negatives in every fold of one regrouping."""

    of_fold: list[tuple[NDArray[np.int64], NDArray[np.int64]]]

    @classmethod
    def within(cls, labels: NDArray[np.int64], fold_of: NDArray[np.int64]) -> _Pairs:
        of_fold = []
        for fold in np.unique(fold_of):
            rows = np.flatnonzero(fold_of == fold)
            of_fold.append((rows[labels[rows] == 1], rows[labels[rows] == 0]))
        if not any(len(positive) and len(negative) for positive, negative in of_fold):
            raise ValueError("y: no fold holds both classes, so there is no pair to score")
        return cls(of_fold)

    def score(self, values: NDArray[np.float64]) -> _Scored:
        wins = [
            (1 + np.sign(values[positive][:, None] - values[negative])) / 2
            for positive, negative in self.of_fold
        ]
        n_pairs = sum(won.size for won in wins)
        auroc = float(sum(won.sum() for won in wins) / n_pairs)
        return _Scored(auroc, [(won - auroc) / n_pairs for won in wins])

    def variance(
        self, residuals: Sequence[NDArray[np.float64]], codes: NDArray[np.int64]
    ) -> _Variance:
        """Variance of the sum of all residuals when pairs that share a group are dependent.

        `sum_g (residuals of pairs that touch g)^2` is the cluster-DeLong variance; it counts the
        square of a block of pairs between two groups once for either group, which the second sum
        takes back: with 6 groups a fold that is a third of the whole. The degrees of freedom are
        Satterthwaite's, from the fourth powers, at most G - 1, and fewer by what is taken back.
        """
        n_groups = int(codes.max()) + 1
        touching = np.zeros(n_groups)
        twice = within = 0.0
        for (positive, negative), residual in zip(self.of_fold, residuals, strict=True):
            present, local = np.unique(
                codes[np.concatenate([positive, negative])], return_inverse=True
            )
            of_positive = _indicator(local[: len(positive)], len(present))
            of_negative = _indicator(local[len(positive) :], len(present))
            block = (of_negative @ (of_positive @ residual).T).T
            own = block.diagonal().copy()
            block = block + block.T
            np.fill_diagonal(block, own)
            touching[present] += block.sum(axis=1)
            within += float((own**2).sum())
            twice += float((np.triu(block, 1) ** 2).sum())
        squares = float((touching**2).sum())
        if squares == 0:
            return _Variance(0.0, n_groups - 1)
        # Never less than if the blocks were independent of each other.
        total = max(squares - twice, twice + within)
        degrees = min(3 * squares**2 / float((touching**4).sum()), n_groups - 1)
        kept = min(total / squares, 1.0)
        return _Variance(n_groups / (n_groups - 1) * total, max(degrees * kept**2, 1.0))


def _indicator(codes: NDArray[np.int64], n_groups: int) -> Any:
    ones = np.ones(len(codes))
    return sparse.csr_array((ones, (codes, np.arange(len(codes)))), (n_groups, len(codes)))


def _cluster_variance(influence: NDArray[np.float64], codes: NDArray[np.int64]) -> float:
    sums = np.bincount(codes, weights=influence)
    return float(len(sums) / (len(sums) - 1) * (sums**2).sum())


def _t_quantile(degrees: float) -> float:
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

"""Scores of a predicted rate or count: R-squared and Spearman correlation within folds, with intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from scipy.stats import t as student_t

from probes.splits import continuous_target, group_codes
from probes.training_variance import TRAINING
from probes.uncertainty import FEW_GROUPS, LEVEL, Estimand, Interval, jackknife_variance

Score = Callable[[ArrayLike, ArrayLike, ArrayLike], float]


def same_fold_r2(y: ArrayLike, predicted: ArrayLike, folds: ArrayLike) -> float:
    """Share of the variance within folds that the predictions take away.

    `1 - sum of squared errors / sum of squared distances from the fold's mean`, sums over all folds:
    scikit-learn's `r2_score` on one fold. Negative where the mean of the fold would do better; a
    useless probe scores a little under 0. nan where y is constant in every fold.

    Args:
        y, predicted: `[item]`.
        folds: fold of every item `[item]`.
    """
    values, guesses, fold_of = _aligned(y, predicted, folds)
    total = sum(
        ((values[fold_of == f] - values[fold_of == f].mean()) ** 2).sum()
        for f in np.unique(fold_of)
    )
    return float(1 - ((values - guesses) ** 2).sum() / total) if total > 0 else float("nan")


def same_fold_spearman(y: ArrayLike, predicted: ArrayLike, folds: ArrayLike) -> float:
    """Correlation of the ranks of y and of the predictions, ranked and centered within folds.

    Folds weigh by the variance of their ranks, ties share a rank; scipy's `spearmanr` on one fold.
    Constant predictions order nothing and score 0; nan where y is constant in every fold.

    Args as in `same_fold_r2`.
    """
    values, guesses, fold_of = _aligned(y, predicted, folds)
    return float(rank_correlations(values[:, None], guesses[:, None], fold_of)[0])


def rank_correlations(
    y: Float[np.ndarray, "item column"],
    predicted: Float[np.ndarray, "item column"],
    folds: Int[np.ndarray, "item"],
) -> Float[np.ndarray, "column"]:
    """`same_fold_spearman` of every column of y with its column of predictions."""
    product, of_y, of_guess = np.zeros((3, y.shape[1]))
    for fold in np.unique(folds):
        rows = folds == fold
        n = rows.sum()
        # The mean rank exactly, so that a constant leaves zeros and no rounding to correlate.
        a, b = ((rankdata(v[rows], axis=0) - (n + 1) / 2) / n for v in (y, predicted))
        product += (a * b).sum(axis=0)
        of_y += (a * a).sum(axis=0)
        of_guess += (b * b).sum(axis=0)
    both = np.sqrt(of_y * of_guess)
    ordered = np.divide(product, both, out=np.zeros_like(product), where=both > 0)
    return np.asarray(np.where(of_y == 0, np.nan, ordered))


def r2_interval(
    y: ArrayLike, predicted: ArrayLike, folds: ArrayLike, groups: ArrayLike, *, estimand: Estimand
) -> Interval:
    """Same-fold R-squared with a 95% interval, jackknife over groups.

    Args:
        y: `[item]`.
        predicted: `[item]` or `[regrouping, item]`.
        folds: as `predicted`.
        groups: group of every item `[item]`.
        estimand: "fixed" for predictions that were not trained here, or "procedure": the training
            sets' share (`TRAINING`) is added, as in `auroc_interval`. Coverage was simulated
            for "fixed" alone, so that a procedure's interval is always marked as approximate.
    """
    return jackknife_interval(
        same_fold_r2, y, predicted, folds, groups, estimand, lambda v: v, lambda v: v
    )


def spearman_interval(
    y: ArrayLike, predicted: ArrayLike, folds: ArrayLike, groups: ArrayLike, *, estimand: Estimand
) -> Interval:
    """Same-fold Spearman correlation with a 95% interval: jackknife on Fisher's z.

    Args as in `r2_interval`.
    """
    return jackknife_interval(
        same_fold_spearman, y, predicted, folds, groups, estimand, _fisher, lambda z: np.tanh(z)
    )


def _fisher(correlation: float) -> float:
    return float(np.arctanh(np.clip(correlation, -1 + 1e-9, 1 - 1e-9)))


def jackknife_interval(
    score: Score,
    y: ArrayLike,
    predicted: ArrayLike,
    folds: ArrayLike,
    groups: ArrayLike,
    estimand: Estimand,
    transform: Callable[[float], float],
    back: Callable[[float], float],
) -> Interval:
    """A 95% interval of any score, leaving out one group at a time, on the scale of `transform`.

    Args:
        score: of y `[item]`, predictions `[item]` (or `[item, predictor]`) and folds `[item]`.
        y, folds, groups, estimand: as in `r2_interval`.
        predicted: `[regrouping, item]`, or `[regrouping, item, predictor]` for a score of several.
        transform, back: to the scale on which the interval is symmetric, and from there.
    """
    if estimand not in ("fixed", "procedure"):
        raise ValueError(f"estimand must be 'fixed' or 'procedure', got {estimand!r}")
    values = continuous_target(y)
    codes = group_codes(groups)
    n_groups = int(codes.max()) + 1
    if n_groups < 2:
        raise ValueError("groups: an interval needs at least 2 groups, got 1")
    guess_rows, fold_rows = np.atleast_2d(np.asarray(predicted)), np.atleast_2d(np.asarray(folds))
    if guess_rows.shape[:2] != fold_rows.shape or guess_rows.shape[1:2] != codes.shape:
        raise ValueError(
            f"predicted has shape {guess_rows.shape}, folds {fold_rows.shape}; needed is "
            f"[regrouping, item] of both with {len(codes)} items"
        )
    estimates, variances = [], []
    for guesses, fold_of in zip(guess_rows, fold_rows, strict=True):
        estimates.append(transform(score(values, guesses, fold_of)))
        left_out = np.array(
            [
                transform(score(values[kept], guesses[kept], fold_of[kept]))
                for kept in (codes != g for g in range(n_groups))
            ]
        )
        variances.append(jackknife_variance(left_out))
    estimate = float(np.mean(estimates))
    inflation = 1 + TRAINING if estimand == "procedure" else 1.0
    t = student_t.ppf((1 + LEVEL) / 2, n_groups - 1)
    half = float(t * np.sqrt(np.mean(variances) * inflation))
    regroupings = f" over {len(guess_rows)} regroupings" if estimand == "procedure" else ""
    return Interval(
        back(estimate),
        back(estimate - half),
        back(estimate + half),
        f"jackknife over groups, {estimand}{regroupings}",
        n_groups,
        estimand == "procedure" or n_groups < FEW_GROUPS,
    )


def _aligned(
    y: ArrayLike, predicted: ArrayLike, folds: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.generic]]:
    values, guesses = np.asarray(y, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    fold_of = np.asarray(folds)
    if not values.shape == guesses.shape == fold_of.shape or values.ndim != 1:
        raise ValueError(
            f"y, predicted and folds must be one entry an item, got shapes {values.shape}, "
            f"{guesses.shape}, {fold_of.shape}"
        )
    for name, entries in (("y", values), ("predicted", guesses)):
        if not np.isfinite(entries).all():
            raise ValueError(f"{name} holds nan or inf; leave out items without a value")
    return values, guesses, fold_of

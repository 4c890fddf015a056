"""Continuous targets: rates over repeated samples, token counts. Ridge, selected on inner folds.

As in `nested_ridge`, the models without fold a and those without folds a and b serve all outer
predictions and all inner selections, and cell and penalty are chosen without the outer fold, here by
squared error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from scipy.stats import t as student_t

from probes._parallel import Progress, map_in_threads
from probes.candidates import Candidate
from probes.nested import modal_choice
from probes.ridge import ALPHAS, RidgeSource
from probes.splits import (
    check_groups,
    continuous_target,
    group_codes,
    grouped_folds_of_values,
)
from probes.uncertainty import FEW_GROUPS, LEVEL, TRAINING, Estimand, Interval

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
    return _jackknife(same_fold_r2, y, predicted, folds, groups, estimand, lambda v: v, lambda v: v)


def spearman_interval(
    y: ArrayLike, predicted: ArrayLike, folds: ArrayLike, groups: ArrayLike, *, estimand: Estimand
) -> Interval:
    """Same-fold Spearman correlation with a 95% interval: jackknife on Fisher's z.

    Args as in `r2_interval`.
    """
    return _jackknife(
        same_fold_spearman, y, predicted, folds, groups, estimand, _fisher, lambda z: np.tanh(z)
    )


def _fisher(correlation: float) -> float:
    return float(np.arctanh(np.clip(correlation, -1 + 1e-9, 1 - 1e-9)))


def _jackknife(
    score: Score,
    y: ArrayLike,
    predicted: ArrayLike,
    folds: ArrayLike,
    groups: ArrayLike,
    estimand: Estimand,
    transform: Callable[[float], float],
    back: Callable[[float], float],
) -> Interval:
    if estimand not in ("fixed", "procedure"):
        raise ValueError(f"estimand must be 'fixed' or 'procedure', got {estimand!r}")
    values = continuous_target(y)
    codes = group_codes(groups)
    n_groups = int(codes.max()) + 1
    if n_groups < 2:
        raise ValueError("groups: an interval needs at least 2 groups, got 1")
    guess_rows, fold_rows = np.atleast_2d(np.asarray(predicted)), np.atleast_2d(np.asarray(folds))
    if guess_rows.shape != fold_rows.shape or guess_rows.shape[1:] != codes.shape:
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
        variances.append((n_groups - 1) / n_groups * ((left_out - left_out.mean()) ** 2).sum())
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


@dataclass(frozen=True)
class RegressionResult:
    """Out-of-fold predictions of the selected cell and of every cell, in every regrouping."""

    names: tuple[str, ...]
    alphas: tuple[float, ...]
    y: Float[np.ndarray, "item"]
    groups: Int[np.ndarray, "item"]
    folds: Int[np.ndarray, "regrouping item"]
    predicted: Float[np.ndarray, "regrouping item"]
    """By the cell and alpha selected without the item's fold, in units of y."""
    candidate_predicted: Float[np.ndarray, "candidate regrouping item"]
    """By every cell, alpha selected without the item's fold; the best of them is not a result."""
    training_predicted: Float[np.ndarray, "regrouping fold item"]
    """For every outer fold, predictions of the *other* folds' items by the cell and alpha selected there, from models
    that saw neither the item's fold nor the outer one. 0 elsewhere."""
    selected_candidate: Int[np.ndarray, "regrouping fold"]
    """Index into `names`."""
    selected_alpha: Float[np.ndarray, "regrouping fold"]

    @cached_property
    def curve(self) -> Float[np.ndarray, "candidate"]:
        """Same-fold Spearman correlation of every cell, mean over regroupings; its maximum is not a result."""
        every = [
            [same_fold_spearman(self.y, p, f) for p, f in zip(rows, self.folds, strict=True)]
            for rows in self.candidate_predicted
        ]
        return np.asarray(np.mean(every, axis=1))

    @property
    def modal(self) -> tuple[str, float]:
        """The cell selected most often (ties: the higher on the curve) and its usual alpha."""
        return modal_choice(self.names, self.selected_candidate, self.selected_alpha, self.curve)

    @property
    def r2(self) -> Interval:
        """Same-fold R-squared of the selected cell."""
        return r2_interval(self.y, self.predicted, self.folds, self.groups, estimand="procedure")

    @property
    def spearman(self) -> Interval:
        """Same-fold Spearman correlation of the selected cell."""
        return spearman_interval(
            self.y, self.predicted, self.folds, self.groups, estimand="procedure"
        )


def nested_ridge_regression(
    candidates: Sequence[Candidate],
    y: ArrayLike,
    groups: ArrayLike,
    *,
    folds: ArrayLike | None = None,
    n_folds: int = 5,
    n_regroupings: int = 5,
    alphas: Sequence[float] = ALPHAS,
    seed: int = 0,
    standardize: bool = True,
    progress: Progress | None = None,
) -> RegressionResult:
    """Predict a continuous target; select cell and penalty on inner folds, over several regroupings.

    Args:
        candidates: the cells; with several sources their predictions are averaged.
        y: rate or count `[item]`.
        groups: group of every item `[item]`; never straddles a fold.
        folds: 0..F-1, `[regrouping, item]`, to be used in place of own ones (`n_folds`,
            `n_regroupings` and `seed` are then unused).
        alphas, standardize: as in `nested_ridge`; ties go to the larger alpha, then the first cell.

    Raises ValueError for a target that is no number or constant, fewer groups than folds, and
    features that are nan or inf.
    """
    values = continuous_target(y)
    if not candidates:
        raise ValueError("candidates is empty; give at least one cell")
    grid = tuple(sorted((float(alpha) for alpha in alphas), reverse=True))
    if not grid or grid[-1] <= 0:
        raise ValueError(f"alphas must be positive and at least one, got {list(alphas)}")
    if folds is None:
        seeds = np.random.SeedSequence(seed).generate_state(n_regroupings).tolist()
        folds = [grouped_folds_of_values(values, groups, n_folds, one) for one in seeds]
    fold_rows = np.atleast_2d(np.asarray(folds)).astype(np.int64)
    for fold_of in fold_rows:
        check_groups(fold_of, groups)
    n_folds = int(fold_rows.max()) + 1
    if n_folds < 3:
        raise ValueError(f"n_folds must be at least 3 for inner selection, got {n_folds}")

    def evaluate(candidate: Candidate) -> list[_Evaluated]:
        try:
            sources = [RidgeSource(s, standardize=standardize) for s in candidate.read()]
            return [_evaluate(sources, values, row, n_folds, grid) for row in fold_rows]
        except ValueError as error:
            raise ValueError(f"candidate {candidate.name!r}: {error}") from error

    evaluated = map_in_threads(evaluate, candidates, progress)
    predicted = np.empty(fold_rows.shape)
    of_candidate = np.empty((len(candidates), *fold_rows.shape))
    training = np.empty((len(fold_rows), n_folds, len(values)))
    selected = np.empty((len(fold_rows), n_folds), dtype=np.int64)
    selected_alpha = np.empty((len(fold_rows), n_folds))
    for r, fold_of in enumerate(fold_rows):
        inner = np.stack([of_one[r].inner for of_one in evaluated])
        for o in range(n_folds):
            rows = fold_of == o
            best_alpha = inner[:, o].argmin(axis=1)
            for c, of_one in enumerate(evaluated):
                of_candidate[c, r, rows] = of_one[r].outer[best_alpha[c], rows]
            # The transpose puts alpha first: ties to the larger one, then to the first cell.
            alpha, best = np.unravel_index(inner[:, o].T.argmin(), inner[:, o].T.shape)
            predicted[r, rows] = evaluated[int(best)][r].outer[alpha, rows]
            training[r, o] = evaluated[int(best)][r].held_out[o, alpha]
            selected[r, o], selected_alpha[r, o] = best, grid[alpha]
    return RegressionResult(
        tuple(candidate.name for candidate in candidates),
        grid[::-1],
        values,
        group_codes(groups),
        fold_rows,
        predicted,
        of_candidate,
        training,
        selected,
        selected_alpha,
    )


class _Evaluated(NamedTuple):
    outer: Float[np.ndarray, "alpha item"]
    inner: Float[np.ndarray, "fold alpha"]
    """Squared error on the inner folds of every outer one."""
    held_out: Float[np.ndarray, "fold alpha item"]
    """Of the inner folds of every outer one, by models that saw neither."""


def _evaluate(
    sources: Sequence[RidgeSource],
    values: NDArray[np.float64],
    fold_of: NDArray[np.int64],
    n_folds: int,
    alphas: Sequence[float],
) -> _Evaluated:
    outer = np.empty((len(alphas), len(values)))
    inner = np.zeros((n_folds, len(alphas)))
    held_out = np.zeros((n_folds, len(alphas), len(values)))
    for left_out in [(a,) for a in range(n_folds)] + list(combinations(range(n_folds), 2)):
        is_test = np.isin(fold_of, left_out)
        train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
        targets = values[train][:, None]
        guesses = np.mean([s.scores(train, test, targets, alphas)[..., 0] for s in sources], axis=0)
        if len(left_out) == 1:
            outer[:, test] = guesses
            continue
        for o, i in (left_out, left_out[::-1]):
            rows = fold_of[test] == i
            inner[o] += ((guesses[:, rows] - values[test][rows]) ** 2).sum(axis=1)
            held_out[o][:, test[rows]] = guesses[:, rows]
    return _Evaluated(outer, inner, held_out)

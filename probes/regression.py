"""Continuous targets: rates over repeated samples, token counts. Ridge, selected on inner folds.

As in `nested_probe`, cell and penalty are chosen without the outer fold, here by squared error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray

from probes._parallel import Progress, map_in_threads
from probes.candidates import Candidate
from probes.column_scores import checked_penalties, from_weak_to_strong, ridge_scores
from probes.nested import modal_choice
from probes.nested_folds import (
    NestedCell,
    mean_of_sources,
    nested_cell,
    penalty_of_selected,
    scores_of_selected,
    selected_cells,
    training_of_selected,
)
from probes.regression_scores import r2_interval, same_fold_spearman, spearman_interval
from probes.ridge import ALPHAS
from probes.splits import (
    check_groups,
    continuous_target,
    group_codes,
    grouped_folds_of_values,
    seeds_of_regroupings,
)
from probes.uncertainty import Interval


@dataclass(frozen=True)
class RegressionResult:
    """Out-of-fold predictions of the selected cell and of every cell, in every regrouping."""

    names: tuple[str, ...]
    penalties: tuple[float, ...]
    """Alphas, ascending."""
    y: Float[np.ndarray, "item"]
    groups: Int[np.ndarray, "item"]
    folds: Int[np.ndarray, "regrouping item"]
    predicted: Float[np.ndarray, "regrouping item"]
    """By the cell and penalty selected without the item's fold, in units of y."""
    candidate_predicted: Float[np.ndarray, "candidate regrouping item"]
    """By every cell, penalty selected without the item's fold; the best of them is not a result."""
    training_predicted: Float[np.ndarray, "regrouping fold item"]
    """For every outer fold, predictions of the *other* folds' items by the cell and penalty selected there, from models
    that saw neither the item's fold nor the outer one. 0 elsewhere."""
    selected_candidate: Int[np.ndarray, "regrouping fold"]
    """Index into `names`."""
    selected_penalty: Float[np.ndarray, "regrouping fold"]

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
        return modal_choice(
            self.names, self.penalties, self.selected_candidate, self.selected_penalty, self.curve
        )

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
    grid = from_weak_to_strong("ridge", checked_penalties("ridge", alphas))
    if folds is None:
        seeds = seeds_of_regroupings(n_regroupings, seed)
        folds = [grouped_folds_of_values(values, groups, n_folds, one) for one in seeds]
    given = np.atleast_2d(np.asarray(folds))
    fold_rows = given.astype(np.int64)
    n_folds = int(fold_rows.max(initial=-1)) + 1
    for fold_of in fold_rows:
        check_groups(fold_of, groups)
    for fold_of in given:
        if not np.array_equal(names := np.unique(fold_of), range(n_folds)):
            raise ValueError(
                f"folds must be 0, 1, 2, ... in every regrouping, got {names[:10].tolist()}"
            )
    if n_folds < 3:
        raise ValueError(f"n_folds must be at least 3 for inner selection, got {n_folds}")

    def evaluate(candidate: Candidate) -> NestedCell:
        try:
            sources = [
                ridge_scores(source, values[:, None], grid, standardize=standardize)
                for source in candidate.read()
            ]
            return nested_cell(
                sources,
                fold_rows,
                combine=mean_of_sources,
                quality=lambda held_out, fold_of: _inner_closeness(values, held_out, fold_of),
            )
        except ValueError as error:
            raise ValueError(f"candidate {candidate.name!r}: {error}") from error

    cells = map_in_threads(evaluate, candidates, progress)
    selected = selected_cells(cells)
    return RegressionResult(
        tuple(candidate.name for candidate in candidates),
        grid,
        values,
        group_codes(groups),
        fold_rows,
        scores_of_selected(cells, selected, fold_rows)[..., 0],
        np.stack([cell.scores[..., 0] for cell in cells]),
        training_of_selected(cells, selected)[..., 0],
        selected,
        penalty_of_selected(cells, selected, grid),
    )


def _inner_closeness(
    values: NDArray[np.float64], held_out: NDArray[np.float64], fold_of: NDArray[np.int64]
) -> Float[np.ndarray, "fold penalty"]:
    """Minus the squared error on the inner folds of every outer one."""
    inner = fold_of != np.arange(held_out.shape[0])[:, None]
    errors = (held_out[..., 0] - values) ** 2
    return np.asarray(-np.einsum("fpi,fi->fp", errors, inner.astype(np.float64)))

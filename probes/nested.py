"""Nested selection over a grid of cells and penalties, for every kind of probe.

Layer, position and penalty are chosen without the outer fold (`nested_folds`), which scores the choice once; on pure
noise the selected score averages 0.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray

from probes._parallel import Progress, map_in_threads
from probes.candidates import Candidate
from probes.column_scores import (
    ProbeKind,
    checked_device,
    checked_penalties,
    from_weak_to_strong,
    source_scores,
)
from probes.metrics import same_fold_auroc, winning_pairs
from probes.nested_folds import (
    NestedCell,
    mean_of_standardized,
    nested_cell,
    penalty_of_selected,
    scores_of_selected,
    selected_cells,
    training_of_selected,
)
from probes.ridge import ALPHAS
from probes.splits import binary_labels, regrouped_folds


@dataclass(frozen=True)
class NestedResult:
    """Out-of-fold scores of the selected cell and of every cell, in every regrouping."""

    probe: ProbeKind
    names: tuple[str, ...]
    penalties: tuple[float, ...]
    """The grid, weakest first, in the probe's own parameter: alpha of ridge, C of logistic, shrinkage of lda. nan
    where there is nothing to choose: diff_means, and the Ledoit-Wolf shrinkage of lda."""
    y: Int[np.ndarray, "item"]
    folds: Int[np.ndarray, "regrouping item"]
    scores: Float[np.ndarray, "regrouping item"]
    """Of the cell and penalty selected without the item's fold; z-scored within folds."""
    candidate_scores: Float[np.ndarray, "candidate regrouping item"]
    """Of every cell, penalty selected without the item's fold."""
    training_scores: Float[np.ndarray, "regrouping fold item"]
    """For every outer fold, scores of the *other* folds' items by the cell and penalty selected there, from
    models that saw neither the item's fold nor the outer one: what a stack may be fitted on. 0 elsewhere."""
    selected_candidate: Int[np.ndarray, "regrouping fold"]
    """Index into `names`."""
    selected_penalty: Float[np.ndarray, "regrouping fold"]
    n_unconverged: int
    """Fits that stopped short of their tolerance, over all cells, training sets and penalties (logistic alone)."""

    @cached_property
    def curve(self) -> Float[np.ndarray, "candidate"]:
        """Same-fold AUROC of every cell, mean over regroupings; its maximum is not a result."""
        per_regrouping = [
            same_fold_auroc(self.y, self.candidate_scores[:, r].T, folds)
            for r, folds in enumerate(self.folds)
        ]
        return np.asarray(np.mean(per_regrouping, axis=0))

    @property
    def modal(self) -> tuple[str, float]:
        """The cell selected most often (ties: the higher on the curve) and its usual penalty (ties: the stronger)."""
        return modal_choice(
            self.names, self.penalties, self.selected_candidate, self.selected_penalty, self.curve
        )


def modal_choice(
    names: Sequence[str],
    grid: Sequence[float],
    candidates: Int[np.ndarray, "regrouping fold"],
    penalties: Float[np.ndarray, "regrouping fold"],
    curve: Float[np.ndarray, "candidate"],
) -> tuple[str, float]:
    """The candidate selected most often and its usual penalty (see `NestedResult.modal`); the grid is weakest first."""
    counts = Counter(candidates.ravel().tolist())
    index = max(counts, key=lambda c: (counts[c], curve[c]))
    chosen = penalties[candidates == index]
    votes = [np.isclose(chosen, one, rtol=0, atol=0, equal_nan=True).sum() for one in grid]
    strongest = len(votes) - 1 - int(np.argmax(votes[::-1]))
    return names[index], grid[strongest]


def nested_probe(
    candidates: Sequence[Candidate],
    y: ArrayLike,
    groups: ArrayLike,
    *,
    probe: ProbeKind = "ridge",
    penalties: Sequence[float] | None = None,
    n_folds: int = 5,
    n_regroupings: int = 5,
    seed: int = 0,
    standardize: bool = True,
    device: str | torch.device = "cpu",
    progress: Progress | None = None,
) -> NestedResult:
    """Select cell and penalty on inner folds and score the outer folds, over several regroupings.

    Args:
        candidates: the cells; all see the same items in the same order.
        y: 0/1 labels `[item]`.
        groups: group of every item `[item]`; never straddles a fold.
        probe: which kind is fitted.
        penalties: alpha of "ridge" (unit: see `ALPHAS`), C of "logistic", shrinkage of "lda" (nan: Ledoit-Wolf);
            default `ALPHAS`, 1e-4..1, Ledoit-Wolf. Ties go to the stronger penalty, then to the first cell.
        n_folds: outer folds; the other n_folds - 1 are the inner ones. At least 3.
        seed: with y, groups and the counts it fixes the folds (`regrouped_folds`), so that
            predictors in separate calls are scored on the same pairs.
        standardize: see `RidgeSource`; the other kinds always do.
        device: where "logistic" computes; on a GPU one cell at a time.

    Raises ValueError where `skip_reason` gives one, for features that are nan or inf, and for penalties or a device
    that the probe does not have.
    """
    labels = binary_labels(y)
    if not candidates:
        raise ValueError("candidates is empty; give at least one cell")
    if n_folds < 3:
        raise ValueError(f"n_folds must be at least 3 for inner selection, got {n_folds}")
    grid = from_weak_to_strong(probe, checked_penalties(probe, penalties))
    chosen = checked_device(probe, device)
    folds = regrouped_folds(labels, groups, n_folds, n_regroupings, seed)

    def evaluate(candidate: Candidate) -> NestedCell:
        try:
            sources = [
                source_scores(
                    probe, source, labels[:, None], grid, standardize=standardize, device=chosen
                )
                for source in candidate.read()
            ]
            return nested_cell(
                sources,
                folds,
                combine=mean_of_standardized,
                quality=lambda held_out, fold_of: _inner_auroc(labels, held_out, fold_of),
            )
        except ValueError as error:
            raise ValueError(f"candidate {candidate.name!r}: {error}") from error

    workers = None if chosen.type == "cpu" else 1
    cells = map_in_threads(evaluate, candidates, progress, workers=workers)
    selected = selected_cells(cells)
    return NestedResult(
        probe,
        tuple(candidate.name for candidate in candidates),
        grid,
        labels,
        folds,
        scores_of_selected(cells, selected, folds)[..., 0],
        np.stack([cell.scores[..., 0] for cell in cells]),
        training_of_selected(cells, selected)[..., 0],
        selected,
        penalty_of_selected(cells, selected, grid),
        sum(cell.n_unconverged for cell in cells),
    )


def nested_ridge(
    candidates: Sequence[Candidate],
    y: ArrayLike,
    groups: ArrayLike,
    *,
    n_folds: int = 5,
    n_regroupings: int = 5,
    alphas: Sequence[float] = ALPHAS,
    seed: int = 0,
    standardize: bool = True,
    progress: Progress | None = None,
) -> NestedResult:
    """`nested_probe` of ridges; `alphas` are its penalties."""
    return nested_probe(
        candidates,
        y,
        groups,
        penalties=alphas,
        n_folds=n_folds,
        n_regroupings=n_regroupings,
        seed=seed,
        standardize=standardize,
        progress=progress,
    )


def _inner_auroc(
    labels: NDArray[np.int64], held_out: NDArray[np.float64], fold_of: NDArray[np.int64]
) -> Float[np.ndarray, "fold penalty"]:
    """Same-fold AUROC over the inner folds of every outer one; -inf where no fold holds a pair."""
    n_folds, n_penalties = held_out.shape[:2]
    won = np.zeros((n_folds, n_folds, n_penalties))
    pairs = np.zeros((n_folds, n_folds, n_penalties))
    for i in range(n_folds):
        rows = fold_of == i
        others = np.arange(n_folds) != i
        columns = np.moveaxis(held_out[others][:, :, rows, 0], 2, 0)
        won[others, i], pairs[others, i] = winning_pairs(labels[rows][:, None, None], columns)
    with np.errstate(invalid="ignore"):
        inner = won.sum(axis=1) / pairs.sum(axis=1)
    return np.asarray(np.nan_to_num(inner, nan=-np.inf))

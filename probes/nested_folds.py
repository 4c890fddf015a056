"""The loop of every nested selection: folds, pairs of folds, and the penalty chosen without the outer fold.

For F folds, the models without fold a and those without folds a and b (F + F(F-1)/2 trainings) serve all outer scores
and all inner selections: in outer fold o, inner fold i is scored by the model that saw neither. So cell and penalty are
chosen without the outer fold, which scores the choice once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from probes.column_scores import FoldScores, SourceScores
from probes.metrics import within_fold_zscores

Combine = Callable[[Sequence[NDArray[np.float64]], NDArray[np.int64]], NDArray[np.float64]]
"""From the scores `[penalty, test, column]` of every source, and the folds `[test]`, to one of them."""
Quality = Callable[[NDArray[np.float64], NDArray[np.int64]], Float[np.ndarray, "fold penalty"]]
"""From held-out scores `[fold, penalty, item, column]` and the folds of the items, the higher the better."""


@dataclass(frozen=True)
class NestedCell:
    """One cell in every regrouping, its penalty chosen without the outer fold."""

    quality: Float[np.ndarray, "regrouping fold"]
    """On the inner folds, at the chosen penalty."""
    penalty: Int[np.ndarray, "regrouping fold"]
    """Index of the chosen one; of equally good ones the last."""
    scores: Float[np.ndarray, "regrouping item column"]
    training_scores: Float[np.ndarray, "regrouping fold item column"]
    """For every outer fold, of the other folds' items by models that saw neither their fold nor it; else 0."""
    n_unconverged: int


def nested_cell(
    sources: Sequence[SourceScores],
    folds: Int[np.ndarray, "regrouping item"],
    *,
    combine: Combine,
    quality: Quality,
) -> NestedCell:
    """Score one cell in every regrouping; folds are 0..F-1 in each."""
    n_folds = int(folds.max()) + 1
    left_out = [(a,) for a in range(n_folds)] + list(combinations(range(n_folds), 2))
    masks = np.array([~np.isin(fold_of, out) for fold_of in folds for out in left_out])
    streams = zip(*(source(masks) for source in sources), strict=True)
    of_regrouping = [
        _choose(left_out, islice(streams, len(left_out)), fold_of, combine, quality)
        for fold_of in folds
    ]
    return NestedCell(
        np.stack([one.quality[0] for one in of_regrouping]),
        np.stack([one.penalty[0] for one in of_regrouping]),
        np.stack([one.scores[0] for one in of_regrouping]),
        np.stack([one.training_scores[0] for one in of_regrouping]),
        sum(one.n_unconverged for one in of_regrouping),
    )


def _choose(
    left_out: Sequence[tuple[int, ...]],
    scores: Iterator[tuple[FoldScores, ...]],
    fold_of: NDArray[np.int64],
    combine: Combine,
    quality: Quality,
) -> NestedCell:
    n_folds = int(fold_of.max()) + 1
    n_unconverged = 0
    outer = held_out = np.empty(0)
    for out, of_sources in zip(left_out, scores, strict=True):
        test_folds = fold_of[np.isin(fold_of, out)]
        values = combine([one.values for one in of_sources], test_folds)
        n_unconverged += int(sum((~one.converged).sum() for one in of_sources))
        if not outer.size:
            outer = np.zeros((len(values), len(fold_of), values.shape[2]))
            held_out = np.zeros((n_folds, *outer.shape))
        if len(out) == 1:
            outer[:, fold_of == out[0]] = values
        else:
            for o, i in (out, out[::-1]):
                held_out[o][:, fold_of == i] = values[:, test_folds == i]
    inner = quality(held_out, fold_of)
    n_penalties = inner.shape[1]
    penalty = n_penalties - 1 - inner[:, ::-1].argmax(axis=1)
    of_fold = np.arange(n_folds)
    return NestedCell(
        inner[of_fold, penalty][None],
        penalty[None],
        outer[penalty[fold_of], np.arange(len(fold_of))][None],
        held_out[of_fold, penalty][None],
        n_unconverged,
    )


def selected_cells(cells: Sequence[NestedCell]) -> Int[np.ndarray, "regrouping fold"]:
    """The best cell of every outer fold; ties go to the later penalty, then to the first cell."""
    quality = np.stack([cell.quality for cell in cells])
    penalty = np.stack([cell.penalty for cell in cells])
    tied = quality == quality.max(axis=0)
    return np.asarray(np.where(tied, penalty, -1).argmax(axis=0))


def scores_of_selected(
    cells: Sequence[NestedCell],
    selected: Int[np.ndarray, "regrouping fold"],
    folds: Int[np.ndarray, "regrouping item"],
) -> Float[np.ndarray, "regrouping item column"]:
    """Of every item by the cell that was selected without its fold."""
    own = np.take_along_axis(selected, folds, axis=1)
    scores = np.empty_like(cells[0].scores)
    for c in np.unique(selected):
        scores[own == c] = cells[c].scores[own == c]
    return scores


def training_of_selected(
    cells: Sequence[NestedCell], selected: Int[np.ndarray, "regrouping fold"]
) -> Float[np.ndarray, "regrouping fold item column"]:
    """The training scores of the cell that was selected for every outer fold."""
    return np.stack(
        [
            np.stack([cells[c].training_scores[r, o] for o, c in enumerate(row)])
            for r, row in enumerate(selected)
        ]
    )


def penalty_of_selected(
    cells: Sequence[NestedCell],
    selected: Int[np.ndarray, "regrouping fold"],
    grid: Sequence[float],
) -> Float[np.ndarray, "regrouping fold"]:
    """The penalty of the cell that was selected for every outer fold."""
    index = np.stack([cell.penalty for cell in cells])
    return np.asarray(np.array(grid)[np.take_along_axis(index, selected[None], axis=0)[0]])


def mean_of_standardized(
    values: Sequence[NDArray[np.float64]], folds: NDArray[np.int64]
) -> Float[np.ndarray, "penalty test column"]:
    """Scores z-scored within the fold, mean over sources; 0 where a training set held one class."""
    standard = [within_fold_zscores(np.moveaxis(one, 1, 0), folds) for one in values]
    return np.moveaxis(np.nan_to_num(np.mean(standard, axis=0), nan=0.0), 0, 1)


def mean_of_sources(
    values: Sequence[NDArray[np.float64]], folds: NDArray[np.int64]
) -> Float[np.ndarray, "penalty test column"]:
    """Scores in their own units, mean over sources; 0 where a training set held one class."""
    return np.asarray(np.nan_to_num(np.mean(values, axis=0), nan=0.0))

"""Nested selection over a grid of cells and penalties, in closed form.

For F folds, the models without fold a and those without folds a and b (F + F(F-1)/2 trainings)
serve all outer scores and all inner selections: in outer fold o, inner fold i is scored by the
model that saw neither. So layer, position and penalty are chosen without the outer fold, which
scores the choice once; on pure noise the selected score averages 0.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray

from probes._parallel import Progress, map_in_threads
from probes.candidates import Candidate
from probes.metrics import same_fold_auroc, winning_pairs, within_fold_zscores
from probes.ridge import ALPHAS, RidgeSource
from probes.splits import binary_labels, regrouped_folds


@dataclass(frozen=True)
class NestedResult:
    """Out-of-fold scores of the selected cell and of every cell, in every regrouping."""

    names: tuple[str, ...]
    alphas: tuple[float, ...]
    y: Int[np.ndarray, "item"]
    folds: Int[np.ndarray, "regrouping item"]
    scores: Float[np.ndarray, "regrouping item"]
    """Of the cell and alpha selected without the item's fold; z-scored within folds."""
    candidate_scores: Float[np.ndarray, "candidate regrouping item"]
    """Of every cell, alpha selected without the item's fold."""
    training_scores: Float[np.ndarray, "regrouping fold item"]
    """For every outer fold, scores of the *other* folds' items by the cell and alpha selected there, from
    models that saw neither the item's fold nor the outer one: what a stack may be fitted on. 0 elsewhere."""
    selected_candidate: Int[np.ndarray, "regrouping fold"]
    """Index into `names`."""
    selected_alpha: Float[np.ndarray, "regrouping fold"]

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
        """The cell selected most often (ties: the higher on the curve) and its usual alpha."""
        return modal_choice(self.names, self.selected_candidate, self.selected_alpha, self.curve)


def modal_choice(
    names: Sequence[str],
    candidates: Int[np.ndarray, "regrouping fold"],
    alphas: Float[np.ndarray, "regrouping fold"],
    curve: Float[np.ndarray, "candidate"],
) -> tuple[str, float]:
    """The candidate selected most often (ties: the higher on the curve) and its usual alpha (ties: the larger)."""
    counts = Counter(candidates.ravel().tolist())
    index = max(counts, key=lambda c: (counts[c], curve[c]))
    usual = Counter(alphas[candidates == index].tolist())
    return names[index], max(usual, key=lambda a: (usual[a], a))


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
    """Select cell and penalty on inner folds and score the outer folds, over several regroupings.

    Args:
        candidates: the cells; all see the same items in the same order.
        y: 0/1 labels `[item]`.
        groups: group of every item `[item]`; never straddles a fold.
        n_folds: outer folds; the other n_folds - 1 are the inner ones. At least 3.
        alphas: see `ALPHAS` for the unit. Ties go to the larger alpha, then to the first cell.
        seed: with y, groups and the counts it fixes the folds (`regrouped_folds`), so that
            predictors in separate calls are scored on the same pairs.
        standardize: see `RidgeSource`.

    Raises ValueError where `skip_reason` gives one, and for features that are nan or inf.
    """
    labels = binary_labels(y)
    if not candidates:
        raise ValueError("candidates is empty; give at least one cell")
    if n_folds < 3:
        raise ValueError(f"n_folds must be at least 3 for inner selection, got {n_folds}")
    grid = tuple(sorted(float(alpha) for alpha in alphas))
    if not grid or grid[0] <= 0:
        raise ValueError(f"alphas must be positive and at least one, got {list(alphas)}")
    folds = regrouped_folds(labels, groups, n_folds, n_regroupings, seed)

    def evaluate(candidate: Candidate) -> list[_Evaluated]:
        try:
            sources = [RidgeSource(s, standardize=standardize) for s in candidate.read()]
            return [_evaluate(sources, labels, row, n_folds, grid) for row in folds]
        except ValueError as error:
            raise ValueError(f"candidate {candidate.name!r}: {error}") from error

    evaluated = map_in_threads(evaluate, candidates, progress)
    n_candidates = len(candidates)
    scores = np.empty(folds.shape)
    candidate_scores = np.empty((n_candidates, *folds.shape))
    training_scores = np.empty((n_regroupings, n_folds, len(labels)))
    selected_candidate = np.empty((n_regroupings, n_folds), dtype=np.int64)
    selected_alpha = np.empty((n_regroupings, n_folds))
    for r, fold_of in enumerate(folds):
        inner = np.stack([evaluated[c][r].inner for c in range(n_candidates)])
        for o in range(n_folds):
            rows = fold_of == o
            best, alpha = _select(inner[:, o])
            for c in range(n_candidates):
                own_alpha = _select(inner[c : c + 1, o])[1]
                candidate_scores[c, r, rows] = evaluated[c][r].outer[own_alpha, rows]
            scores[r, rows] = evaluated[best][r].outer[alpha, rows]
            training_scores[r, o] = evaluated[best][r].held_out[o, alpha]
            selected_candidate[r, o] = best
            selected_alpha[r, o] = grid[alpha]
    return NestedResult(
        tuple(candidate.name for candidate in candidates),
        grid,
        labels,
        folds,
        scores,
        candidate_scores,
        training_scores,
        selected_candidate,
        selected_alpha,
    )


@dataclass(frozen=True)
class _Evaluated:
    outer: Float[np.ndarray, "alpha item"]
    inner: Float[np.ndarray, "fold alpha"]
    held_out: Float[np.ndarray, "fold alpha item"]
    """Of the inner folds of every outer one, by models that saw neither."""


def _evaluate(
    sources: Sequence[RidgeSource],
    labels: NDArray[np.int64],
    fold_of: NDArray[np.int64],
    n_folds: int,
    alphas: Sequence[float],
) -> _Evaluated:
    n = len(labels)
    outer = np.zeros((len(alphas), n))
    held_out = np.zeros((n_folds, len(alphas), n))
    for left_out in [(a,) for a in range(n_folds)] + list(combinations(range(n_folds), 2)):
        scores = mean_fold_scores(sources, labels[:, None], fold_of, left_out, alphas)[..., 0]
        if len(left_out) == 1:
            rows = fold_of == left_out[0]
            outer[:, rows] = scores[:, rows]
        else:
            for o, i in (left_out, left_out[::-1]):
                rows = fold_of == i
                held_out[o][:, rows] = scores[:, rows]
    won = np.zeros((n_folds, n_folds, len(alphas)))
    pairs = np.zeros((n_folds, n_folds, len(alphas)))
    for i in range(n_folds):
        rows = fold_of == i
        others = np.arange(n_folds) != i
        columns = np.moveaxis(held_out[others][:, :, rows], 2, 0)
        won[others, i], pairs[others, i] = winning_pairs(labels[rows][:, None, None], columns)
    with np.errstate(invalid="ignore"):
        inner = won.sum(axis=1) / pairs.sum(axis=1)
    return _Evaluated(outer, np.nan_to_num(inner, nan=-np.inf), held_out)


def mean_fold_scores(
    sources: Sequence[RidgeSource],
    labels: NDArray[np.int64],
    fold_of: NDArray[np.int64],
    left_out: Sequence[int],
    alphas: Sequence[float],
) -> Float[np.ndarray, "alpha item column"]:
    """Scores of the left-out folds by ridges trained on the others: z-scored, mean over sources.

    `labels` is `[item, column]`; items of training folds get 0.
    """
    is_test = np.isin(fold_of, left_out)
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    targets = 2.0 * labels[train] - 1
    total = np.zeros((len(alphas), len(fold_of), labels.shape[1]))
    for source in sources:
        by_item = np.moveaxis(source.scores(train, test, targets, alphas), 1, 0)
        standard = within_fold_zscores(by_item, fold_of[test])
        total[:, test] += np.moveaxis(standard, 0, 1)
    return total / len(sources)


def _select(inner: Float[np.ndarray, "candidate alpha"]) -> tuple[int, int]:
    """(candidate, alpha) of the largest value; ties to the larger alpha, then the first one."""
    by_alpha = inner[:, ::-1].T
    position = int(by_alpha.argmax())
    reversed_alpha, candidate = divmod(position, by_alpha.shape[1])
    return candidate, inner.shape[1] - 1 - reversed_alpha

"""P-value of the best cell of a grid: permute whole groups, redo the grid, take the maximum.

Rows are never shuffled freely: labels that are alike within groups make a free shuffle reject
15-32% of true nulls. The closed forms make all permutations columns of one product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray

from probes._parallel import Progress, map_in_threads
from probes.candidates import Candidate
from probes.column_scores import ProbeKind, SourceScores, checked_penalties, source_scores
from probes.metrics import same_fold_auroc
from probes.nested_folds import Combine, mean_of_standardized
from probes.ridge import Refit
from probes.splits import binary_labels, check_groups, groups_of

MIN_PERMUTATIONS = 199
PermutedUnit = Literal["whole_group", "within_group"]


def whole_group_permutations(
    y: ArrayLike, groups: ArrayLike, n_permutations: int, seed: int = 0
) -> Int[np.ndarray, "item permutation"]:
    """Labels handed from group to group.

    Every group takes the label vector of a donor group, in a random order of the groups. Where
    the two differ in size the donor's labels are resampled: drawn without replacement from as many
    copies of them as are needed, so that a group stays as homogeneous as its donor was.
    """
    return handed_on(binary_labels(y), groups, n_permutations, seed)


def handed_on(
    labels: NDArray[Any], groups: ArrayLike, n_permutations: int, seed: int
) -> NDArray[Any]:
    """`whole_group_permutations` `[item, permutation]` of labels `[item]` of any kind."""
    codes = groups_of(labels, groups)
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(codes == g) for g in range(int(codes.max()) + 1)]
    permuted = np.empty((len(labels), n_permutations), dtype=labels.dtype)
    for p in range(n_permutations):
        for rows, donor in zip(members, rng.permutation(len(members)), strict=True):
            given = labels[members[donor]]
            if len(given) != len(rows):
                copies = np.tile(given, -(-len(rows) // len(given)))
                given = rng.permutation(copies)[: len(rows)]
            permuted[rows, p] = given
    return permuted


def within_group_permutations(
    y: ArrayLike, groups: ArrayLike, n_permutations: int, seed: int = 0
) -> Int[np.ndarray, "item permutation"]:
    """Labels shuffled inside every group: the null of no knowledge *within* groups.

    Without power where the group decides the label; shown beside the whole-group test only.
    """
    labels = binary_labels(y)
    codes = groups_of(labels, groups)
    rng = np.random.default_rng(seed)
    rows = np.argsort(codes, kind="stable")
    permuted = np.empty((len(labels), n_permutations), dtype=np.int64)
    for p in range(n_permutations):
        permuted[rows, p] = labels[np.lexsort((rng.random(len(labels)), codes))]
    return permuted


@dataclass(frozen=True)
class MaxStatistic:
    """Same-fold AUROC (Spearman correlation of a rate) of every (cell, penalty), observed and under permuted labels."""

    names: tuple[str, ...]
    observed: Float[np.ndarray, "candidate penalty"]
    null: Float[np.ndarray, "permutation candidate penalty"]

    @property
    def p_value(self) -> float:
        """(1 + permutations whose grid maximum reaches the observed one) / (1 + permutations).

        A permutation that leaves no fold with a pair to score, nan, counts as one that does.
        """
        maxima = self.null.max(axis=(1, 2))
        return float((1 + (~(maxima < self.observed.max())).sum()) / (1 + len(maxima)))

    def band(self, level: float = 0.95) -> Float[np.ndarray, "candidate 2"]:
        """Central band of every single cell's statistic under the null, all penalties together."""
        tail = (1 - level) / 2
        return np.asarray(np.nanquantile(self.null, (tail, 1 - tail), axis=(0, 2)).T)


def max_statistic_test(
    candidates: Sequence[Candidate],
    y: ArrayLike,
    groups: ArrayLike,
    folds: ArrayLike,
    *,
    probe: ProbeKind = "ridge",
    penalties: Sequence[float] | None = None,
    n_permutations: int = MIN_PERMUTATIONS,
    unit: PermutedUnit = "whole_group",
    seed: int = 0,
    standardize: bool = True,
    progress: Progress | None = None,
) -> MaxStatistic:
    """Test the maximum over all cells and penalties against label permutations.

    Args:
        candidates, probe, penalties, standardize: as in `nested_probe`; refitted features see no labels. For "logistic"
            every permutation is a search of its own, the other kinds are closed forms.
        y: 0/1 labels `[item]`.
        groups: group of every item `[item]`.
        folds: fold of every item `[item]`, groups whole (`grouped_folds`).
        n_permutations: at least 199.
        unit: what is exchanged, "whole_group" or "within_group".
    """
    labels = binary_labels(y)
    grid = checked_penalties(probe, penalties)
    fold_of = np.asarray(folds)
    check_groups(fold_of, groups)
    check_permutations(n_permutations)
    if unit not in ("whole_group", "within_group"):
        raise ValueError(f"unit must be 'whole_group' or 'within_group', got {unit!r}")
    permute = whole_group_permutations if unit == "whole_group" else within_group_permutations
    columns = np.column_stack([labels, permute(labels, groups, n_permutations, seed)])

    return permuted_grid(
        candidates,
        fold_of,
        lambda source: source_scores(probe, source, columns, grid, standardize=standardize),
        combine=mean_of_standardized,
        statistic=lambda scores: same_fold_auroc(columns, scores, fold_of),
        progress=progress,
    )


def permuted_grid(
    candidates: Sequence[Candidate],
    folds: Int[np.ndarray, "item"],
    scores_of: Callable[[ArrayLike | Refit], SourceScores],
    *,
    combine: Combine,
    statistic: Callable[[Float[np.ndarray, "item column"]], Float[np.ndarray, "column"]],
    progress: Progress | None,
) -> MaxStatistic:
    """A statistic of every cell and penalty, out of fold, for observed and permuted labels at once.

    Args:
        scores_of: how a source scores the label columns, the observed ones first.
        combine: the scores of several sources into one.
        statistic: one value a labeling, the observed one first, from the scores of one penalty.
    """
    names = np.unique(folds)
    masks = folds != names[:, None]

    def evaluate(candidate: Candidate) -> Float[np.ndarray, "penalty labeling"]:
        try:
            streams = zip(*(scores_of(s)(masks) for s in candidate.read()), strict=True)
            parts = [
                combine([one.values for one in of_sources], folds[folds == fold])
                for fold, of_sources in zip(names, streams, strict=True)
            ]
        except ValueError as error:
            raise ValueError(f"candidate {candidate.name!r}: {error}") from error
        scores = np.empty((len(parts[0]), len(folds), parts[0].shape[2]))
        for fold, part in zip(names, parts, strict=True):
            scores[:, folds == fold] = part
        return np.stack([statistic(one) for one in scores])

    if not candidates:
        raise ValueError("candidates is empty; give at least one cell")
    grid = np.stack(map_in_threads(evaluate, candidates, progress))
    if np.isnan(grid[..., 0]).all():
        raise ValueError(
            "y: no fold holds two items of different labels, so there is no pair to score"
        )
    return MaxStatistic(
        tuple(candidate.name for candidate in candidates),
        grid[..., 0],
        np.moveaxis(grid[..., 1:], 2, 0),
    )


def check_permutations(n_permutations: int) -> None:
    """Raise ValueError for fewer than a p-value of 0.005 needs."""
    if n_permutations < MIN_PERMUTATIONS:
        raise ValueError(
            f"n_permutations must be at least {MIN_PERMUTATIONS}, got {n_permutations}"
        )

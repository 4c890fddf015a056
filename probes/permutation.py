"""P-value of the best cell of a grid: permute whole groups, redo the grid, take the maximum.

Rows are never shuffled freely: labels that are alike within groups make a free shuffle reject
15-32% of true nulls. The closed forms make all permutations columns of one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray

from probes._parallel import Progress, map_in_threads
from probes.candidates import Candidate
from probes.column_scores import ProbeKind, checked_penalties, source_scores
from probes.metrics import same_fold_auroc
from probes.nested_folds import mean_of_standardized
from probes.splits import binary_labels, check_groups, group_codes

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
    codes = group_codes(groups)
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
    codes = group_codes(groups)
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
        """(1 + permutations whose grid maximum reaches the observed one) / (1 + permutations)."""
        maxima = np.nanmax(self.null, axis=(1, 2))
        return float((1 + (maxima >= np.nanmax(self.observed)).sum()) / (1 + len(maxima)))

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
    if n_permutations < MIN_PERMUTATIONS:
        raise ValueError(
            f"n_permutations must be at least {MIN_PERMUTATIONS}, got {n_permutations}"
        )
    if unit not in ("whole_group", "within_group"):
        raise ValueError(f"unit must be 'whole_group' or 'within_group', got {unit!r}")
    permute = whole_group_permutations if unit == "whole_group" else within_group_permutations
    columns = np.column_stack([labels, permute(labels, groups, n_permutations, seed)])

    def evaluate(candidate: Candidate) -> Float[np.ndarray, "penalty column"]:
        try:
            sources = [
                source_scores(probe, source, columns, grid, standardize=standardize)
                for source in candidate.read()
            ]
            streams = zip(*(scores_of(masks) for scores_of in sources), strict=True)
            scores = np.zeros((len(grid), *columns.shape))
            for fold, of_sources in zip(names, streams, strict=True):
                rows = fold_of == fold
                scores[:, rows] = mean_of_standardized(
                    [s.values for s in of_sources], fold_of[rows]
                )
        except ValueError as error:
            raise ValueError(f"candidate {candidate.name!r}: {error}") from error
        return np.stack([same_fold_auroc(columns, one, fold_of) for one in scores])

    names = np.unique(fold_of)
    masks = fold_of != names[:, None]
    aurocs = np.stack(map_in_threads(evaluate, candidates, progress))
    return MaxStatistic(
        tuple(candidate.name for candidate in candidates),
        aurocs[..., 0],
        np.moveaxis(aurocs[..., 1:], 2, 0),
    )

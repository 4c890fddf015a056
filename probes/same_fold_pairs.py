"""Pairs of a positive and a negative item of one fold: their AUROC, and its variance when items are clustered.

Cluster DeLong: a pair's residual is whether it is ordered rightly, less the AUROC; the variance of their sum counts all
products of residuals whose pairs share a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Variance(NamedTuple):
    """A variance and its degrees of freedom."""

    value: float
    degrees: float


@dataclass(frozen=True)
class ScoredPairs:
    """One predictor in one regrouping: its AUROC and every pair's share in it."""

    auroc: float
    residuals: list[NDArray[np.float64]]
    """A matrix `[positive, negative]` a fold of (win - AUROC) / number of all pairs."""


@dataclass(frozen=True)
class SameFoldPairs:
    """The rows of positives and of negatives in every fold of one regrouping."""

    of_fold: list[tuple[NDArray[np.int64], NDArray[np.int64]]]

    @classmethod
    def within(cls, labels: NDArray[np.int64], fold_of: NDArray[np.int64]) -> SameFoldPairs:
        """The pairs of 0/1 labels `[item]`; ValueError where no fold holds both."""
        of_fold = []
        for fold in np.unique(fold_of):
            rows = np.flatnonzero(fold_of == fold)
            of_fold.append((rows[labels[rows] == 1], rows[labels[rows] == 0]))
        if not any(len(positive) and len(negative) for positive, negative in of_fold):
            raise ValueError("y: no fold holds both classes, so there is no pair to score")
        return cls(of_fold)

    def score(self, values: NDArray[np.float64]) -> ScoredPairs:
        """Score the pairs by values `[item]`; a tie is half a win."""
        wins = [
            (1 + np.sign(values[positive][:, None] - values[negative])) / 2
            for positive, negative in self.of_fold
        ]
        n_pairs = sum(won.size for won in wins)
        auroc = float(sum(won.sum() for won in wins) / n_pairs)
        return ScoredPairs(auroc, [(won - auroc) / n_pairs for won in wins])

    def variance(
        self, residuals: Sequence[NDArray[np.float64]], codes: NDArray[np.int64]
    ) -> Variance:
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
            block = np.zeros((len(present), len(present)))
            of_positive, first = _sums_by_group(residual, local[: len(positive)])
            of_both, second = _sums_by_group(of_positive.T, local[len(positive) :])
            block[np.ix_(first, second)] = of_both.T
            own = block.diagonal().copy()
            block = block + block.T
            np.fill_diagonal(block, own)
            touching[present] += block.sum(axis=1)
            within += float((own**2).sum())
            twice += float((np.triu(block, 1) ** 2).sum())
        squares = float((touching**2).sum())
        if squares == 0:
            return Variance(0.0, n_groups - 1)
        # Never less than if the blocks were independent of each other.
        total = max(squares - twice, twice + within)
        degrees = min(3 * squares**2 / float((touching**4).sum()), n_groups - 1)
        kept = min(total / squares, 1.0)
        # Folds are scored apart: their differences alone give as many degrees as there are folds, less one.
        least = max(len(self.of_fold) - 1, 1)
        return Variance(n_groups / (n_groups - 1) * total, max(degrees * kept**2, least))


def _sums_by_group(
    rows: NDArray[np.float64], group_of: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sums of the rows of every group, and the groups."""
    order = np.argsort(group_of, kind="stable")
    present, starts = np.unique(group_of[order], return_index=True)
    if not len(present):
        return np.zeros((0, rows.shape[1])), present
    return np.add.reduceat(rows[order], starts, axis=0), present

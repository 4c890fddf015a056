"""Degeneracy: what is left orthogonal to a probe's direction - does it still predict?

The direction fitted on the training folds is projected out of training and test rows, the probe is fitted anew and
scored out of fold, again and again (iterated nullspace projection, arXiv 2004.07667), until what is left is at chance.

What may be concluded, and what not:

- A score under 0.5 after a removal is no signal. The training folds are left with the part of their class difference
  that the direction did not take; where that is mostly sampling error, it points away from the truth.
- A score above 0.5 does not yet mean a second direction. A direction fitted on few rows misses part of the true one,
  and a refit finds what it missed: a single planted direction (AUROC 0.85 at best, 320 items, 100 features) leaves 0.64
  at a weak penalty, and more along an axis of larger spread than the others'. What falls to chance at once has one
  direction; what does not may have one too.
- Two classes differ by one vector, the difference of their means; projecting out *that* leaves nothing linear, by
  construction. Something is left beside the probe's direction where the spread of the activations turns it away from
  that vector. It says that removing the direction does not remove the information, not why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve

from probes.features import FoldFeatures, dense_features
from probes.ridge import alphas_of_folds
from probes.splits import binary_labels, check_groups, regrouped_folds
from probes.standardize import column_scaling
from probes.uncertainty import Interval, auroc_interval

Matrix = NDArray[np.float64]
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Degeneracy:
    """Same-fold AUROC before any removal and after each."""

    aurocs: tuple[Interval, ...]
    """Of the probe itself, after one removal, after two, ... up to the first that is not above chance."""

    @property
    def n_removed(self) -> int | None:
        """How many removals it took to reach chance (lower bound at most 0.5); None if they did not suffice.

        The steps are tested in a fixed order up to the first failure, so that they need no correction.
        """
        return len(self.aurocs) - 1 if self.aurocs[-1].low <= 0.5 else None


def degeneracy(
    X: ArrayLike | FoldFeatures,
    y: ArrayLike,
    groups: ArrayLike,
    *,
    alpha: ArrayLike = 1.0,
    folds: ArrayLike | None = None,
    max_removals: int = 5,
    n_folds: int = 5,
    n_regroupings: int = 5,
    seed: int = 0,
) -> Degeneracy:
    """Remove a ridge probe's direction, refit, score out of fold; repeat.

    Rows are standardized on the training folds, and "orthogonal" is meant in that space: the scores of the removed
    direction are constant on what is left.

    Args:
        X: features `[item, feature]`, or `FoldFeatures`.
        y: 0/1 labels `[item]`.
        groups: group of every item `[item]`; never straddles a fold.
        alpha: penalty (see `RidgeProbe`), one or `[regrouping, fold]`.
        folds: 0..F-1, `[regrouping, item]`, in place of own ones.
        max_removals: at most so many directions are removed.
        seed: of own folds.

    Raises ValueError where `skip_reason` names one, and for features that are nan or inf.
    """
    labels = binary_labels(y)
    if max_removals < 1:
        raise ValueError(f"max_removals must be at least 1, got {max_removals}")
    if folds is None:
        folds = regrouped_folds(labels, groups, n_folds, n_regroupings, seed)
    fold_rows = np.atleast_2d(np.asarray(folds))
    for fold_of in fold_rows:
        check_groups(fold_of, groups)
    alphas = alphas_of_folds(alpha, len(fold_rows), int(fold_rows.max()) + 1)
    scores = np.zeros((max_removals + 1, *fold_rows.shape))
    for r, fold_of in enumerate(fold_rows):
        for fold in np.unique(fold_of):
            test = fold_of == fold
            given = X(r, int(fold)) if callable(X) else X
            features = dense_features(given, len(labels), "X").astype(np.float64)
            left = _Left.of(features, ~test, float(alphas[r, fold]))
            for step in range(max_removals + 1):
                direction = left.fit(labels)
                scores[step, r, test] = left.rows[test] @ direction
                left = left.without(direction)
    aurocs: list[Interval] = []
    for one in scores:
        aurocs.append(auroc_interval(labels, one, fold_rows, groups, estimand="procedure"))
        if len(aurocs) > 1 and aurocs[-1].low <= 0.5:
            break
    return Degeneracy(tuple(aurocs))


@dataclass(frozen=True)
class _Left:
    """What is left of the rows of one fold, in coordinates of which there are no more than items.

    Only inner products of rows matter, and a turn of the axes keeps them. Directions are projected out of the rows and
    not out of their inner products: where few directions hold the classes apart, the error of those grows a
    ten-thousandfold with every removal.
    """

    rows: Float[np.ndarray, "item coordinate"]
    """Standardized on the training items."""
    train: NDArray[np.bool_]
    alpha: float
    whole: float
    """Mean squared norm of a training row before any removal."""

    @classmethod
    def of(cls, features: Matrix, train: NDArray[np.bool_], alpha: float) -> _Left:
        mean, scale = column_scaling(features[train])
        rows = (features - mean) * scale
        if rows.shape[1] > len(rows):
            rows = np.asarray(np.linalg.qr(rows.T, mode="r")).T
        return cls(rows, train, alpha, _mean_square(rows[train]))

    def fit(self, labels: NDArray[np.int64]) -> Float[np.ndarray, "coordinate"]:
        """The ridge direction, of length 1; 0 where only rounding errors are left."""
        own = self.rows[self.train]
        level = _mean_square(own)
        targets = 2.0 * labels[self.train] - 1
        towards = own.T @ (targets - targets.mean())
        least = _ROUNDING * level**0.5 * len(own)
        if level <= _ROUNDING * self.whole or np.linalg.norm(towards) <= least:
            return np.zeros(own.shape[1])
        penalty = self.alpha * level * np.eye(own.shape[1])
        weights = solve(own.T @ own + penalty, towards, assume_a="pos")
        return np.asarray(weights / np.linalg.norm(weights))

    def without(self, direction: Float[np.ndarray, "coordinate"]) -> _Left:
        """The same rows with a direction of length 1, or 0, projected out."""
        return replace(self, rows=self.rows - np.outer(self.rows @ direction, direction))


def _mean_square(rows: Matrix) -> float:
    return float((rows**2).sum() / len(rows))

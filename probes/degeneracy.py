"""Degeneracy: what is left orthogonal to a probe's direction - does it still predict?

The direction fitted on the training folds is projected out of training and test rows, the probe is fitted anew and
scored out of fold, again and again (iterated nullspace projection, arXiv 2004.07667), until what is left is at chance.

What may be concluded, and what not:

- A score under 0.5 after a removal is no signal. The training folds are left with the part of their class difference
  that the direction did not take; where that is mostly sampling error, it points away from the truth.
- A score above 0.5 does not yet mean a second direction. A direction fitted on few rows misses part of the true one,
  and a refit finds what it missed: a single planted direction (AUROC 0.85 at best, 320 items, 100 features) leaves 0.64
  at a weak penalty. `p_value` holds the first removal against a control with exactly one direction, as readable as the
  one found, in the same activations. That control holds for a direction that spreads like the others. Along an axis of
  larger spread one direction leaves more than the control says: at 2 to 4 times the spread of the others `p_value` was
  0.05 or less in 65-95% of simulations with one direction only (20 each; AUROC 0.9, 150 items, 40 features, alpha 1).
  There a small `p_value` says nothing; a large one still says that one direction would do.
- Two classes differ by one vector, the difference of their means; projecting out *that* leaves nothing linear, by
  construction. Something is left beside the probe's direction where the spread of the activations turns it away from
  that vector. It says that removing the direction does not remove the information, not why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve

from probes.features import FoldFeatures, dense_features
from probes.metrics import same_fold_auroc
from probes.permutation import whole_group_permutations
from probes.ridge import alphas_of_folds
from probes.splits import binary_labels, check_groups, regrouped_folds
from probes.standardize import column_scaling
from probes.uncertainty import Interval, auroc_interval

Matrix = NDArray[np.float64]
_ROUNDING = 1e-9
_BISECTIONS = 6
_MATCHED_ON = 6
"""Control draws on which the strength of the planted direction is matched."""
_STRONGEST = 8.0
"""Of planted class differences, in standard deviations: an AUROC of 1."""


@dataclass(frozen=True)
class Degeneracy:
    """Same-fold AUROC before any removal and after each, and the first removal against its control."""

    aurocs: tuple[Interval, ...]
    """Of the probe itself, after one removal, after two, ... up to the first that is not above chance."""
    control: Float[np.ndarray, "draw"]
    """AUROC after one removal where there is one direction only, which the probe reads as well as this one."""
    p_value: float
    """(1 + draws of the control that reach the observed AUROC after one removal) / (1 + draws).

    Too small where the direction spreads more than the others (see the module).
    """

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
    n_controls: int = 99,
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
        n_controls: draws of the control: labels permuted by whole groups, so that the activations say nothing of them,
            and one planted direction, spread as the fitted one and independent of all others, at the strength at
            which a probe reads it as well. Draws are scored in the first regrouping.
        seed: of own folds and of the control.

    Raises ValueError where `skip_reason` names one, and for features that are nan or inf.
    """
    labels = binary_labels(y)
    if max_removals < 1:
        raise ValueError(f"max_removals must be at least 1, got {max_removals}")
    if n_controls < 19:
        raise ValueError(f"n_controls must be at least 19, got {n_controls}")
    if folds is None:
        folds = regrouped_folds(labels, groups, n_folds, n_regroupings, seed)
    fold_rows = np.atleast_2d(np.asarray(folds))
    for fold_of in fold_rows:
        check_groups(fold_of, groups)
    alphas = alphas_of_folds(alpha, len(fold_rows), int(fold_rows.max()) + 1)
    scores = np.zeros((max_removals + 1, *fold_rows.shape))
    planted = []
    for r, fold_of in enumerate(fold_rows):
        for fold in np.unique(fold_of):
            test = fold_of == fold
            given = X(r, int(fold)) if callable(X) else X
            features = dense_features(given, len(labels), "X").astype(np.float64)
            left = _Left.of(_kernel(features, ~test), ~test, float(alphas[r, fold]))
            for step in range(max_removals + 1):
                fitted, square = left.fit(labels)
                scores[step, r, test] = fitted[test]
                left = left.without(fitted, square)
                if step == 0 and r == 0 and square > 0:
                    planted.append(_Planted.beside(left, test, fitted / square**0.5, labels))
    aurocs: list[Interval] = []
    for one in scores:
        aurocs.append(auroc_interval(labels, one, fold_rows, groups, estimand="procedure"))
        if len(aurocs) > 1 and aurocs[-1].low <= 0.5:
            break
    before, after = aurocs[0].estimate, aurocs[1].estimate
    control = _control(planted, labels, groups, fold_rows[0], before, n_controls, seed)
    # A draw without any pair, nan, counts against the claim.
    p_value = float((1 + (~(control < after)).sum()) / (1 + n_controls))
    return Degeneracy(tuple(aurocs), control, p_value)


def _kernel(features: Matrix, train: NDArray[np.bool_]) -> Matrix:
    """Inner products of rows standardized on the training items."""
    mean, scale = column_scaling(features[train])
    rows = (features - mean) * scale
    return np.asarray(rows @ rows.T)


@dataclass(frozen=True)
class _Left:
    """What is left of the rows `Z` of one fold, as their inner products `Z Z'`.

    A ridge direction is `w = Z[train]' a`, so that its scores are `K[:, train] a`, and projecting it out of all rows is
    `K - (Zw)(Zw)' / |w|^2`: no feature is ever touched.
    """

    kernel: Float[np.ndarray, "item item"]
    """Of rows centered on the training items."""
    train: NDArray[np.bool_]
    alpha: float
    whole: float
    """Mean squared norm of a training row before any removal."""

    @classmethod
    def of(cls, kernel: Matrix, train: NDArray[np.bool_], alpha: float) -> _Left:
        return cls(kernel, train, alpha, float(kernel.diagonal()[train].mean()))

    def fit(self, labels: NDArray[np.int64]) -> tuple[Float[np.ndarray, "item"], float]:
        """Scores `Zw` of all items, and `|w|^2`; all 0 where only rounding errors are left."""
        own = self.kernel[np.ix_(self.train, self.train)]
        level = float(own.diagonal().mean())
        targets = 2.0 * labels[self.train] - 1
        targets -= targets.mean()
        if level <= _ROUNDING * self.whole or np.abs(own @ targets).max() <= _ROUNDING * level:
            return np.zeros(len(labels)), 0.0
        penalty = np.diag(np.full(len(own), self.alpha * level))
        weights = solve(own + penalty, targets, assume_a="pos")
        return self.kernel[:, self.train] @ weights, float(weights @ own @ weights)

    def without(self, scores: Float[np.ndarray, "item"], square: float) -> _Left:
        """The same rows with the direction of these scores projected out."""
        if square == 0:
            return self
        return replace(self, kernel=self.kernel - np.outer(scores, scores) / square)


@dataclass(frozen=True)
class _Planted:
    """One fold of the control: everything orthogonal to the direction, where one is to be planted in its place."""

    complement: _Left
    test: NDArray[np.bool_]
    spread: float
    """Standard deviation of held-out rows along the unit direction, within a class."""

    @classmethod
    def beside(
        cls,
        complement: _Left,
        test: NDArray[np.bool_],
        along: Float[np.ndarray, "item"],
        labels: NDArray[np.int64],
    ) -> _Planted:
        # Training rows were fitted on and are spread by it: only held-out ones tell the spread.
        within = [
            along[test & (labels == label)].var()
            for label in (0, 1)
            if (labels[test] == label).any()
        ]
        return cls(complement, test, float(np.mean(within)) ** 0.5)

    def rows(self, component: Float[np.ndarray, "item"]) -> _Left:
        """The rows with the component planted along an axis of its own."""
        along = self.spread * (component - component[self.complement.train].mean())
        return replace(self.complement, kernel=self.complement.kernel + np.outer(along, along))


def _control(
    planted: Sequence[_Planted],
    labels: NDArray[np.int64],
    groups: ArrayLike,
    fold_of: NDArray[np.generic],
    auroc: float,
    n_draws: int,
    seed: int,
) -> Float[np.ndarray, "draw"]:
    """AUROC after one removal in draws with one direction, planted so that before it is `auroc` on average."""
    permuted = whole_group_permutations(labels, groups, n_draws, seed).T
    noise = np.random.default_rng(seed).normal(size=permuted.shape)

    def scored(index: int, strength: float, *, removed: bool) -> float:
        y = permuted[index]
        scores = np.zeros(len(labels))
        for fold in planted:
            rows = fold.rows(strength * (y - 0.5) + noise[index])
            fitted, square = rows.fit(y)
            if removed:
                fitted, _ = rows.without(fitted, square).fit(y)
            scores[fold.test] = fitted[fold.test]
        return float(same_fold_auroc(y, scores, fold_of))

    weakest, strongest = 0.0, _STRONGEST
    for _ in range(_BISECTIONS):
        strength = (weakest + strongest) / 2
        reached = np.nanmean([scored(i, strength, removed=False) for i in range(_MATCHED_ON)])
        weakest, strongest = (strength, strongest) if reached < auroc else (weakest, strength)
    strength = (weakest + strongest) / 2
    return np.array([scored(index, strength, removed=True) for index in range(n_draws)])

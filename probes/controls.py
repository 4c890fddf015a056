"""Controls on a probe's score: what it owes to surface types, and what is left where the text says the same.

*Selectivity* (Hewitt and Liang 2019, arXiv 1909.03368): a probe that can learn labels which chance has given to
surface types reads the types, and its score on the true labels may be owed to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from probes.column_scores import checked_penalties, ridge_scores
from probes.metrics import same_fold_auroc
from probes.splits import (
    MIN_ITEMS_PER_CLASS,
    binary_labels,
    check_groups,
    group_codes,
    groups_of,
)
from probes.uncertainty import Interval, auroc_interval

MIN_TYPES = 4
"""Fewer types on both sides of a split have too few ways of being labeled at random."""
MIN_DRAWS = 5


@dataclass(frozen=True)
class Selectivity:
    """Same-fold AUROC of one cell for true labels and for control labels, on the same items and folds."""

    true: Interval
    control: Float[np.ndarray, "draw"]
    """One a draw of control labels, mean over regroupings."""
    n_types: int
    """Types that occur on both sides of a split."""
    n_items: int
    """Items of these types."""

    @property
    def difference(self) -> float:
        """The true score minus the mean over draws of the control score."""
        return self.true.estimate - float(self.control.mean())


def selectivity(
    features: ArrayLike,
    y: ArrayLike,
    types: ArrayLike,
    groups: ArrayLike,
    folds: ArrayLike,
    *,
    alpha: float,
    n_draws: int = 20,
    seed: int = 0,
) -> Selectivity:
    """Fit a ridge to labels drawn at random per surface type, and to the true ones, on the same folds.

    Folds keep groups whole; a type straddles them where it occurs in several groups. An item is scored in a
    regrouping only where its type also occurs among the training items, for otherwise its control label cannot be
    learned and says nothing.

    Args:
        features: of one cell, `[item, feature]`.
        y: 0/1 labels `[item]`.
        types: surface type of every item (kind of entity, opening words), `[item]`.
        groups: group of every item `[item]`; never straddles a fold.
        folds: `[regrouping, item]`.
        alpha: penalty, the same for all labels (`probes.ridge.ALPHAS` gives the unit).
        n_draws: of control labels, at least 5; half of the types get label 1.
        seed: of the draws.

    Raises ValueError where `selectivity_reason` gives one.
    """
    labels, codes, fold_rows = binary_labels(y), group_codes(types), np.atleast_2d(folds)
    groups_of(labels, groups)
    if len(codes) != len(labels):
        raise ValueError(f"types has {len(codes)} entries for {len(labels)} items; give one each")
    for fold_of in fold_rows:
        check_groups(fold_of, groups)
    reason = selectivity_reason(labels, types, fold_rows)
    if reason is not None:
        raise ValueError(f"types: {reason}")
    if n_draws < MIN_DRAWS:
        raise ValueError(f"n_draws must be at least {MIN_DRAWS}, got {n_draws}")
    control = control_labels(codes, n_draws, seed)
    columns = np.column_stack([labels, control])
    scores_of = ridge_scores(features, 2.0 * columns - 1, checked_penalties("ridge", alpha))
    scores = np.zeros((len(fold_rows), *columns.shape))
    pairs_of = np.empty(fold_rows.shape, dtype=np.int64)
    for r, fold_of in enumerate(fold_rows):
        names = np.unique(fold_of)
        for fold, found in zip(names, scores_of(fold_of != names[:, None]), strict=True):
            scores[r, fold_of == fold] = found.values[0]
        # An item alone in its fold forms no pair: it goes unscored.
        alone = fold_of.max() + 1 + np.arange(len(fold_of))
        pairs_of[r] = np.where(_occurs_elsewhere(codes, fold_of), fold_of, alone)
    drawn = [same_fold_auroc(control, scores[r, :, 1:], pairs) for r, pairs in enumerate(pairs_of)]
    straddling = _straddling(codes, fold_rows)
    return Selectivity(
        auroc_interval(labels, scores[..., 0], pairs_of, groups, estimand="procedure"),
        np.ma.masked_invalid(drawn).mean(axis=0).filled(np.nan),  # nan: no pair in a regrouping
        n_types=len(np.unique(codes[straddling])),
        n_items=int(straddling.sum()),
    )


def selectivity_reason(y: ArrayLike, types: ArrayLike, folds: ArrayLike) -> str | None:
    """Why control labels of these types say nothing on these folds, or None if they do."""
    labels, codes = binary_labels(y), group_codes(types)
    for fold_of in np.atleast_2d(folds):
        scored = _occurs_elsewhere(codes, fold_of)
        n_types = len(np.unique(codes[scored]))
        if n_types < MIN_TYPES:
            return f"only {n_types} surface types occur on both sides of a split; {MIN_TYPES} are needed"
        fewest = min((labels[scored] == label).sum() for label in (0, 1))
        if fewest < MIN_ITEMS_PER_CLASS:
            return (
                f"only {fewest} items of one outcome have a surface type on both sides of a split; "
                f"{MIN_ITEMS_PER_CLASS} are needed"
            )
    return None


def control_labels(types: ArrayLike, n_draws: int, seed: int = 0) -> Int[np.ndarray, "item draw"]:
    """Labels drawn at random per type, half of the types 1; all items of a type share theirs."""
    codes = group_codes(types)
    n_types = int(codes.max()) + 1
    rng = np.random.default_rng(seed)
    halves = np.arange(n_types) % 2
    return np.stack([rng.permutation(halves)[codes] for _ in range(n_draws)], axis=1)


def text_bins(
    text_scores: Float[np.ndarray, "regrouping item"],
    folds: Int[np.ndarray, "regrouping item"],
    n_bins: int = 5,
) -> Int[np.ndarray, "regrouping item"]:
    """Codes of fold x bin of the text's score, in place of folds: a pair is then compared only where the text says
    about the same of both items.

    Bins hold equally many items of a fold; items of equal score stay together.

    Args:
        text_scores: out-of-fold scores.
        folds: the folds 0..F-1 that they were made with.
        n_bins: at least 2.
    """
    if n_bins < 2:
        raise ValueError(f"n_bins must be at least 2, got {n_bins}")
    if text_scores.shape != folds.shape or folds.ndim != 2:
        raise ValueError(
            f"text_scores and folds must be [regrouping, item], got shapes {text_scores.shape} and {folds.shape}"
        )
    if not np.isfinite(text_scores).all():
        raise ValueError("text_scores hold nan or inf; score every item")
    codes = np.empty(folds.shape, dtype=np.int64)
    for r, fold_of in enumerate(folds):
        for fold in np.unique(fold_of):
            rows = fold_of == fold
            below = rankdata(text_scores[r, rows], method="min") - 1
            codes[r, rows] = fold * n_bins + (below * n_bins / rows.sum()).astype(np.int64)
    return codes


def _occurs_elsewhere(
    codes: Int[np.ndarray, "item"], fold_of: Int[np.ndarray, "item"]
) -> Bool[np.ndarray, "item"]:
    """Whether each item's type also occurs in another fold."""
    pairs = np.unique(np.column_stack([codes, fold_of]), axis=0)
    n_folds_of = np.bincount(pairs[:, 0], minlength=int(codes.max()) + 1)
    return np.asarray(n_folds_of[codes] > 1)


def _straddling(
    codes: Int[np.ndarray, "item"], folds: Int[np.ndarray, "regrouping item"]
) -> Bool[np.ndarray, "item"]:
    """Whether each item's type is on both sides of a split in any regrouping."""
    return np.asarray(np.any([_occurs_elsewhere(codes, fold_of) for fold_of in folds], axis=0))

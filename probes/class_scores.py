"""Scores of several classes: one-vs-one AUROC and balanced accuracy, compared within a fold."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray

from probes.regression_scores import jackknife_interval
from probes.uncertainty import Estimand, Interval


def same_fold_class_auroc(
    codes: ArrayLike, scores: ArrayLike, folds: ArrayLike
) -> NDArray[np.float64]:
    """Mean AUROC over pairs of classes (Hand and Till 2001), from pairs of items *within one fold* alone.

    For classes i and j: the share of pairs (item of i, item of j) of one fold in which the item of i has the higher
    score of class i, averaged with the same for j. scikit-learn's `roc_auc_score(multi_class="ovo")` on one fold.

    Args:
        codes: class 0..K-1 `[item]`, or `[item, *batch]` for other labels in every column.
        scores: `[item, *batch, class]`, a class's probability for example.
        folds: fold of every item `[item]`.

    Returns:
        `[*batch]`; pairs of classes that no fold holds are left out, nan where none is left.
    """
    values = np.asarray(scores, dtype=np.float64)
    fold_of = np.asarray(folds)
    batch, n_classes = values.shape[1:-1], values.shape[-1]
    values = values.reshape(len(values), -1, n_classes)
    labels = np.asarray(codes)
    labels = labels.reshape(len(labels), -1)
    labels = np.broadcast_to(labels, values.shape[:2])
    won = np.zeros((n_classes, n_classes, values.shape[1]))
    pairs = np.zeros_like(won)
    for fold in np.unique(fold_of):
        rows = fold_of == fold
        of_class = labels[rows][..., None] == np.arange(n_classes)
        counts = of_class.sum(axis=0).astype(np.float64)
        pairs += counts.T[:, None] * counts.T[None]
        for i in range(n_classes):
            won[i] += _won(of_class, values[rows][..., i], i)
    with np.errstate(invalid="ignore"):
        share = won / pairs
    upper, lower = np.triu_indices(n_classes, 1)
    of_pair = (share[upper, lower] + share[lower, upper]) / 2
    known = np.isfinite(of_pair)
    total = np.where(known, of_pair, 0).sum(axis=0)
    mean = np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)
    return np.asarray(mean.reshape(batch))


def _won(
    of_class: NDArray[np.bool_], scores: NDArray[np.float64], i: int
) -> Float[np.ndarray, "class column"]:
    """For every class, the pairs of one of its items and one of class i in which the latter scores higher.

    Items are counted below one another in sorted order, ties once with class i first and once with it last.
    """
    won = np.zeros((of_class.shape[2], scores.shape[1]))
    for tied in (of_class[..., i], ~of_class[..., i]):
        order = np.lexsort((tied, scores), axis=0)
        ordered = np.take_along_axis(of_class, order[..., None], axis=0)
        below = np.cumsum(ordered, axis=0)
        won += np.einsum("ic,icj->jc", ordered[..., i].astype(np.float64), below) / 2
    return won


def balanced_class_accuracy(
    codes: ArrayLike, scores: ArrayLike, folds: ArrayLike | None = None
) -> float:
    """Mean over classes of the share of their items that score highest on their own class.

    A decision is its own fold's, so that folds need not be told apart; the argument is there to be called like other
    scores. Classes without items are left out.

    Args:
        codes: class 0..K-1 `[item]`.
        scores: `[item, class]`.
    """
    labels = np.asarray(codes).astype(np.int64)
    right = np.asarray(scores).argmax(axis=1) == labels
    counts = np.bincount(labels)
    return float((np.bincount(labels, weights=right)[counts > 0] / counts[counts > 0]).mean())


def confusion_matrix(
    codes: Int[np.ndarray, "item"], scores: Float[np.ndarray, "regrouping item class"]
) -> Float[np.ndarray, "class predicted"]:
    """Items of every class by the class that scores highest, mean over regroupings."""
    n_classes = scores.shape[2]
    cells = codes * n_classes + scores.argmax(axis=2)
    counts = np.bincount(cells.ravel(), minlength=n_classes**2) / len(scores)
    return np.asarray(counts.reshape(n_classes, n_classes))


def class_auroc_interval(
    codes: ArrayLike, scores: ArrayLike, folds: ArrayLike, groups: ArrayLike, *, estimand: Estimand
) -> Interval:
    """`same_fold_class_auroc` with a 95% interval: jackknife over groups, on the logit scale.

    Args as in `r2_interval`, scores `[regrouping, item, class]`; a procedure's interval is marked as approximate.
    """

    def score(y: ArrayLike, values: ArrayLike, fold_of: ArrayLike) -> float:
        return float(same_fold_class_auroc(y, values, fold_of))

    return jackknife_interval(score, codes, scores, folds, groups, estimand, _logit, _expit)


def balanced_accuracy_interval(
    codes: ArrayLike, scores: ArrayLike, folds: ArrayLike, groups: ArrayLike, *, estimand: Estimand
) -> Interval:
    """`balanced_class_accuracy` with a 95% interval; arguments as in `class_auroc_interval`."""
    return jackknife_interval(
        balanced_class_accuracy, codes, scores, folds, groups, estimand, _logit, _expit
    )


def _logit(share: float) -> float:
    inside = min(max(share, 1e-6), 1 - 1e-6)
    return float(np.log(inside / (1 - inside)))


def _expit(value: float) -> float:
    return float(1 / (1 + np.exp(-value)))

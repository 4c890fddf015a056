"""Scores of a predictor against binary labels; everything is compared within a fold.

Scores of different folds come from different fitted models and are never ranked together: a fold's
intercept goes against its held-out base rate, which alone gives pooled AUROCs of 0.40-0.49 on pure
noise. What scikit-learn has is taken from there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, cohen_kappa_score, roc_curve

from probes.splits import binary_labels


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Cohen's kappa (1960) of two judges' labels `[item]`; nan where both know one label alone."""
    # scikit-learn gives nan as well, after two warnings.
    if len({*first, *second}) < 2:
        return float("nan")
    return float(cohen_kappa_score(first, second))


def winning_pairs(
    y: NDArray[np.generic], scores: NDArray[np.floating]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pairs of a positive and a negative that the scores order rightly (a tie is half), and all.

    `y` is `[item, *batch]` of 0/1 and `scores` `[item, *batch]`; the batch axes broadcast.
    """
    n = len(scores)
    labels = y.astype(np.float64)
    positives = labels.sum(axis=0)
    total = positives * (n - positives)
    order = np.argsort(scores, axis=0)
    ordered = np.take_along_axis(scores, order, axis=0)
    if (ordered[1:] == ordered[:-1]).any():
        ranks = rankdata(scores, axis=0)
    else:
        ranks = np.empty(scores.shape)
        steps = np.arange(1.0, n + 1).reshape(-1, *[1] * (scores.ndim - 1))
        np.put_along_axis(ranks, order, np.broadcast_to(steps, scores.shape), axis=0)
    rank_sum = np.einsum("i...,i...->...", ranks, labels)
    return rank_sum - positives * (positives + 1) / 2, total


def same_fold_auroc(y: ArrayLike, scores: ArrayLike, folds: ArrayLike) -> NDArray[np.float64]:
    """Share of (positive, negative) pairs *within one fold* that the scores order rightly.

    Args:
        y: 0/1 labels `[item, *batch]`, or `[item]` for all columns.
        scores: `[item, *batch]`, higher for label 1. Batch axes of y and scores broadcast as in
            numpy: `[item, column]` on both sides pairs them, `[item, 1, label]` against
            `[item, column, 1]` crosses them.
        folds: fold of every item `[item]`.

    Returns:
        `[*batch]` (0-dimensional for a single column); nan where no fold holds both classes.
    """
    labels = np.asarray(y)
    values = np.asarray(scores, dtype=np.float64)
    fold_of = np.asarray(folds)
    if not len(labels) == len(values) == len(fold_of):
        raise ValueError(
            f"y, scores and folds must have one entry an item, got {len(labels)}, {len(values)}, "
            f"{len(fold_of)}"
        )
    if np.isnan(values).any():
        raise ValueError("scores hold nan; give the unscored items the worst score or drop them")
    if labels.ndim == 1:
        labels = labels.reshape(-1, *[1] * (values.ndim - 1))
    won = np.zeros(np.broadcast_shapes(labels.shape[1:], values.shape[1:]))
    pairs = np.zeros_like(won)
    for fold in np.unique(fold_of):
        rows = fold_of == fold
        fold_won, fold_pairs = winning_pairs(labels[rows], values[rows])
        won += fold_won
        pairs += fold_pairs
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(won / pairs)


def within_fold_zscores(scores: ArrayLike, folds: ArrayLike) -> Float[np.ndarray, "item ..."]:
    """Scores `[item, *batch]` centered and scaled within every fold; a constant fold becomes 0."""
    values = np.asarray(scores, dtype=np.float64)
    fold_of = np.asarray(folds)
    standard = np.empty_like(values)
    for fold in np.unique(fold_of):
        rows = fold_of == fold
        centered = values[rows] - values[rows].mean(axis=0)
        spread = np.sqrt(np.mean(centered**2, axis=0))
        tiny = spread <= 1e-12 * np.abs(values[rows]).max(axis=0, initial=0.0)
        standard[rows] = np.where(tiny, 0.0, centered / np.where(tiny, 1.0, spread))
    return standard


def same_fold_average_precision(y: ArrayLike, scores: ArrayLike, folds: ArrayLike) -> float:
    """Average precision within every fold, weighted by the fold's positives; nan without any."""
    labels = binary_labels(y)
    values = np.asarray(scores, dtype=np.float64)
    fold_of = np.asarray(folds)
    total = 0.0
    for fold in np.unique(fold_of[labels == 1]):
        rows = fold_of == fold
        total += labels[rows].sum() * average_precision_score(labels[rows], values[rows])
    return total / labels.sum() if labels.any() else float("nan")


def same_fold_tpr(
    y: ArrayLike, scores: ArrayLike, folds: ArrayLike, *, max_fpr: float = 0.01
) -> float:
    """True-positive rate at a false-positive rate of at most `max_fpr`, every fold at its own cut.

    In every fold the lowest cut whose false-positive rate is allowed (a point of scikit-learn's
    `roc_curve`, never between two points), weighted by the fold's positives; folds of one class are
    left out, nan without any other. With fewer than 1 / `max_fpr` negatives in a fold no false
    alarm at all is allowed there, and the estimate is coarse.

    Args:
        y: 0/1 labels `[item]`.
        scores: `[item]`, higher for label 1.
        folds: fold of every item `[item]`.
        max_fpr: in [0, 1].
    """
    if not 0 <= max_fpr <= 1:
        raise ValueError(f"max_fpr must lie in [0, 1], got {max_fpr}")
    labels = binary_labels(y)
    values = np.asarray(scores, dtype=np.float64)
    fold_of = np.asarray(folds)
    found = positives = 0.0
    for fold in np.unique(fold_of):
        rows = fold_of == fold
        if len(np.unique(labels[rows])) < 2:
            continue
        false_alarms, hits, _ = roc_curve(labels[rows], values[rows], drop_intermediate=False)
        n_positives = labels[rows].sum()
        found += n_positives * hits[false_alarms <= max_fpr].max()
        positives += n_positives
    return float(found / positives) if positives else float("nan")


def equal_mass_bins(
    y: ArrayLike, probabilities: ArrayLike, n_bins: int = 10
) -> Float[np.ndarray, "bin 3"]:
    """Mean probability, observed rate and count of up to `n_bins` bins that hold equally many items.

    Items of one probability are in one bin, that of the middle one: divided among several, a forecaster who always
    says the base rate would seem miscalibrated by chance.
    """
    labels = binary_labels(y)
    predicted = np.asarray(probabilities, dtype=np.float64)
    if predicted.shape != labels.shape:
        raise ValueError(f"probabilities has shape {predicted.shape}, y has {labels.shape}")
    if predicted.size and not (predicted.min() >= 0 and predicted.max() <= 1):
        raise ValueError("probabilities must lie in [0, 1]; calibrate scores first (platt)")
    parts = np.array_split(np.arange(len(predicted)), n_bins)
    bin_of = np.repeat(np.arange(n_bins), [len(part) for part in parts])
    _, value, count = np.unique(predicted, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - count + (count - 1) // 2
    own = bin_of[middle[value]]
    return np.array(
        [
            (predicted[own == b].mean(), labels[own == b].mean(), (own == b).sum())
            for b in np.unique(own)
        ]
    )


def expected_calibration_error(y: ArrayLike, probabilities: ArrayLike, n_bins: int = 10) -> float:
    """Mean over items of abs(mean probability - observed rate) of their equal-mass bin."""
    predicted, observed, count = equal_mass_bins(y, probabilities, n_bins).T
    return float(np.average(np.abs(predicted - observed), weights=count))


def _hit_and_false_alarm(y: ArrayLike, answers: ArrayLike) -> tuple[float, float]:
    labels = binary_labels(y)
    yes = binary_labels(answers)
    if len(labels) != len(yes):
        raise ValueError(f"answers has {len(yes)} entries and y {len(labels)}; they must agree")
    positives = labels.sum()
    hits = (yes * labels).sum()
    hit_rate = (hits + 0.5) / (positives + 1)
    false_alarm_rate = (yes.sum() - hits + 0.5) / (len(labels) - positives + 1)
    return float(hit_rate), float(false_alarm_rate)


def d_prime(y: ArrayLike, answers: ArrayLike) -> float:
    """z(hit rate) - z(false-alarm rate) of yes/no answers, log-linear correction (Hautus 1995)."""
    hit_rate, false_alarm_rate = _hit_and_false_alarm(y, answers)
    return float(ndtri(hit_rate) - ndtri(false_alarm_rate))


def criterion(y: ArrayLike, answers: ArrayLike) -> float:
    """Criterion c = -(z(hit rate) + z(false-alarm rate)) / 2, log-linear correction.

    Positive: the answers say "no" more often than a neutral observer would.
    """
    hit_rate, false_alarm_rate = _hit_and_false_alarm(y, answers)
    return float(-(ndtri(hit_rate) + ndtri(false_alarm_rate)) / 2)


def criterion_of_counts(
    yes: Float[np.ndarray, "label *batch"], items: Float[np.ndarray, "label *batch"]
) -> Float[np.ndarray, "*batch"]:
    """`criterion` from how many items of label 0 and of label 1 there are, and how many of them got a yes."""
    false_alarm_rate, hit_rate = (yes + 0.5) / (items + 1)
    return np.asarray(-(ndtri(hit_rate) + ndtri(false_alarm_rate)) / 2)


def skill(
    y: ArrayLike, predicted: ArrayLike, score: Literal["accuracy", "brier"] = "accuracy"
) -> float:
    """Strict score minus that of the best constant predictor on the same labels (2608.30980).

    Args:
        y: 0/1 labels `[item]`.
        predicted: probability of label 1, or a 0/1 answer, `[item]`; nan is an unparsed answer and
            counts as the worst score.
        score: share right after rounding at 1/2, or one minus the squared error.
    """
    labels = binary_labels(y)
    values = np.asarray(predicted, dtype=np.float64)
    if score not in ("accuracy", "brier"):
        raise ValueError(f"score must be 'accuracy' or 'brier', got {score!r}")
    rate = float(labels.mean())
    if score == "accuracy":
        right = np.where(np.isnan(values), 0.0, (values > 0.5) == labels)
        return float(right.mean() - max(rate, 1 - rate))
    closeness = np.where(np.isnan(values), 0.0, 1 - (values - labels) ** 2)
    return float(closeness.mean() - (1 - rate * (1 - rate)))

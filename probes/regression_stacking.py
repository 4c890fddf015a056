"""Does a second predictor of a rate add anything to the first? Stacked regressions, cross-fitted on the same folds."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from probes.regression_scores import jackknife_interval, same_fold_r2
from probes.splits import continuous_target
from probes.uncertainty import Interval


def stacked_predictions(
    columns: ArrayLike, y: ArrayLike, folds: ArrayLike, training_columns: ArrayLike
) -> Float[np.ndarray, "regrouping item"]:
    """Weighted sum of out-of-fold predictions, weights not negative (Breiman 1996) and fitted on the other folds.

    Args:
        columns: out-of-fold predictions `[regrouping, item, predictor]`, in units of y.
        y: rate or count `[item]`.
        folds: the folds 0..F-1 that the predictions were made with, `[regrouping, item]`.
        training_columns: `[regrouping, fold, item, predictor]`, what fold o's weights are fitted on: predictions by
            models that saw neither the item's fold nor o (`RegressionResult.training_predicted`).
    """
    values, fold_rows = continuous_target(y), np.asarray(folds)
    guesses = np.asarray(columns, dtype=np.float64)
    training = np.asarray(training_columns, dtype=np.float64)
    stacked = np.empty(fold_rows.shape)
    for r, fold_of in enumerate(fold_rows):
        for outer in np.unique(fold_of):
            test = fold_of == outer
            stacked[r, test] = _weighted(training[r, outer][~test], values[~test], guesses[r, test])
    return stacked


def stacked_training_predictions(
    training_columns: ArrayLike, y: ArrayLike, folds: ArrayLike
) -> Float[np.ndarray, "regrouping fold item"]:
    """A stack's own training predictions, for a further stack on top of it.

    In outer fold o an item of fold i gets weights that were fitted without the rows of o and i.

    Args as in `stacked_predictions`.
    """
    values = continuous_target(y)
    columns = np.asarray(training_columns, dtype=np.float64)
    predicted = np.zeros(columns.shape[:3])
    for r, fold_of in enumerate(np.asarray(folds)):
        for outer in np.unique(fold_of):
            rows = columns[r, outer]
            for inner in np.unique(fold_of[fold_of != outer]):
                others = (fold_of != outer) & (fold_of != inner)
                test = fold_of == inner
                predicted[r, outer, test] = _weighted(rows[others], values[others], rows[test])
    return predicted


def stacked_r2_gain(
    y: ArrayLike,
    text: ArrayLike,
    probe: ArrayLike,
    folds: ArrayLike,
    groups: ArrayLike,
    *,
    training_predicted: tuple[ArrayLike, ArrayLike],
) -> Interval:
    """Same-fold R-squared of text and probe stacked, minus that of the text alone, with a jackknife interval.

    The text is stacked by itself as well, so that the two differ by the probe and not by being scaled anew.

    Args:
        y: rate or count `[item]`.
        text, probe: out-of-fold predictions `[regrouping, item]`.
        folds: `[regrouping, item]`.
        groups: group of every item `[item]`.
        training_predicted: of text and of probe, `[regrouping, fold, item]`.
    """
    both = np.stack([np.asarray(text), np.asarray(probe)], axis=-1)
    training = np.stack([np.asarray(one) for one in training_predicted], axis=-1)
    pair = [
        stacked_predictions(both[..., :n], y, folds, training[..., :n]) for n in (2, 1)
    ]  # with the probe, and without

    def gain(values: ArrayLike, predicted: ArrayLike, fold_of: ArrayLike) -> float:
        stacked, alone = np.asarray(predicted).T
        return same_fold_r2(values, stacked, fold_of) - same_fold_r2(values, alone, fold_of)

    return jackknife_interval(
        gain, y, np.stack(pair, axis=-1), folds, groups, "procedure", lambda v: v, lambda v: v
    )


def _weighted(
    training: NDArray[np.float64], values: NDArray[np.float64], held_out: NDArray[np.float64]
) -> NDArray[np.float64]:
    mean, level = training.mean(axis=0), values.mean()
    weights, _ = nnls(training - mean, values - level)
    return np.asarray(level + (held_out - mean) @ weights)

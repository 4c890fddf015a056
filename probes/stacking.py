"""Does a second predictor add anything to the first? Stacked on the same folds, cross-fitted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from probes.few_logistic import logistic_weights
from probes.metrics import within_fold_zscores
from probes.splits import binary_labels
from probes.uncertainty import Interval, auroc_difference


def cross_fitted_stack(
    columns: ArrayLike,
    y: ArrayLike,
    folds: ArrayLike,
    *,
    training_columns: ArrayLike | None = None,
) -> Float[np.ndarray, "regrouping item"]:
    """Weighted sum of out-of-fold scores, by a logistic regression fitted on the other folds.

    Weights are not negative (Breiman 1996): the predictors are all oriented to label 1, and a free
    sign would be learned from scores that fold o's own labels have helped to train.

    Args:
        columns: out-of-fold scores `[regrouping, item, predictor]`; z-scored within folds here.
        y: 0/1 labels `[item]`.
        folds: the folds 0..F-1 that the scores were made with, `[regrouping, item]`.
        training_columns: `[regrouping, fold, item, predictor]`, what fold o's stack is fitted on:
            scores by models that saw neither the item's fold nor o (`NestedResult.training_scores`).
            Without them it is fitted on `columns`, whose models of other folds have seen o: with
            several useless predictors that alone lifts noise above 0.5.
    """
    values = np.asarray(columns, dtype=np.float64)
    labels = binary_labels(y)
    fold_rows = np.asarray(folds)
    if values.ndim != 3 or fold_rows.shape != values.shape[:2]:
        raise ValueError(
            f"columns must be [regrouping, item, predictor] and folds [regrouping, item], got "
            f"{values.shape} and {fold_rows.shape}"
        )
    stacked, _ = _stack(values, labels, fold_rows, training_columns)
    return stacked


def _stack(
    values: Float[np.ndarray, "regrouping item predictor"],
    labels: Int[np.ndarray, "item"],
    folds: Int[np.ndarray, "regrouping item"],
    training_columns: ArrayLike | None,
) -> tuple[Float[np.ndarray, "regrouping item"], Float[np.ndarray, "regrouping fold item"]]:
    """Out-of-fold scores, and those of the rows that every fold's stack was fitted on (0 for its own)."""
    stacked = np.empty(folds.shape)
    fitted = np.zeros((len(folds), len(np.unique(folds)), folds.shape[1]))
    for r, fold_of in enumerate(folds):
        standard = within_fold_zscores(values[r], fold_of)
        of_fold = None
        if training_columns is not None:
            of_fold = within_fold_zscores(np.asarray(training_columns)[r].swapaxes(0, 1), fold_of)
        for f, fold in enumerate(np.unique(fold_of)):
            test = fold_of == fold
            training = standard[~test] if of_fold is None else of_fold[~test, fold]
            weights = stack_weights(training, labels[~test])
            stacked[r, test] = standard[test] @ weights
            fitted[r, f, ~test] = training @ weights
    return stacked, fitted


def stack_weights(
    columns: Float[np.ndarray, "item predictor"], labels: Int[np.ndarray, "item"]
) -> Float[np.ndarray, "predictor"]:
    """Logistic weights, none negative: the most negative one is dropped until none is."""
    weights = np.zeros(columns.shape[1])
    kept = np.arange(columns.shape[1])
    while len(kept):
        found = logistic_weights(columns[:, kept], labels)
        if found.min() >= 0:
            weights[kept] = found
            break
        kept = np.delete(kept, found.argmin())
    return weights


def stacked_training_scores(
    training_columns: ArrayLike, y: ArrayLike, folds: ArrayLike
) -> Float[np.ndarray, "regrouping fold item"]:
    """A stack's own training scores, for a further stack on top of it.

    In outer fold o an item of fold i gets weights that were fitted without the rows of o and i.

    Args:
        training_columns: as in `cross_fitted_stack`.
        y: 0/1 labels `[item]`.
        folds: `[regrouping, item]`.
    """
    columns = np.asarray(training_columns, dtype=np.float64)
    labels = binary_labels(y)
    scores = np.zeros(columns.shape[:3])
    for r, fold_of in enumerate(np.asarray(folds)):
        for outer in np.unique(fold_of):
            standard = within_fold_zscores(columns[r, outer], fold_of)
            for inner in np.unique(fold_of[fold_of != outer]):
                others = (fold_of != outer) & (fold_of != inner)
                test = fold_of == inner
                scores[r, outer, test] = standard[test] @ stack_weights(
                    standard[others], labels[others]
                )
    return scores


def stacked_gain(
    y: ArrayLike,
    text: ArrayLike,
    probe: ArrayLike,
    folds: ArrayLike,
    groups: ArrayLike,
    *,
    training_scores: tuple[ArrayLike, ArrayLike] | None = None,
) -> Interval:
    """Same-fold AUROC of text and probe stacked, minus that of the text alone.

    Never the raw difference: two predictors of 0.80 with independent errors differ by 0 and stack
    to 0.885. Near 0 the paired interval of a gain is several times too wide; where training scores
    are given, its lower limit is as high as `lean` allows.

    Args:
        y: 0/1 labels `[item]`.
        text, probe: out-of-fold scores `[regrouping, item]`, or `[item]` if not trained here.
        folds: `[regrouping, item]`.
        groups: group of every item `[item]`.
        training_scores: of text and of probe, `[regrouping, fold, item]`, what the stacks are fitted
            on (see `cross_fitted_stack`). Without them a gain of two useless predictors is 0.03 too
            high; that of a useless probe over a text of 0.70 is right either way.
    """
    fold_rows = np.atleast_2d(np.asarray(folds))
    texts, probes = (
        np.broadcast_to(np.asarray(s, dtype=np.float64), fold_rows.shape) for s in (text, probe)
    )
    columns = np.stack([texts, probes], axis=-1)
    difference = partial(auroc_difference, estimand="procedure")
    if training_scores is None:
        stacked = cross_fitted_stack(columns, y, fold_rows)
        return difference(y, stacked, texts, fold_rows, groups)
    stacked, fitted = _stack(
        columns, binary_labels(y), fold_rows, np.stack(training_scores, axis=-1)
    )
    # The two weights have seen the rows of `fitted`; that moves the jackknife's level, not its spread.
    gain = difference(
        y, stacked, texts, fold_rows, groups, training_scores=(fitted, training_scores[0])
    )
    leaning = lean(y, texts, probes, fold_rows, groups, training_scores=training_scores)
    if gain.estimate <= 0 or leaning.low <= 0:
        return gain
    limit = gain.estimate * (leaning.low / leaning.estimate) ** 2
    return replace(gain, low=max(gain.low, limit))


LEAN = 0.5
"""How far a text's score is moved along what the probe adds, in standard deviations of either."""


def lean(
    y: ArrayLike,
    text: ArrayLike,
    probe: ArrayLike,
    folds: ArrayLike,
    groups: ArrayLike,
    *,
    training_scores: tuple[ArrayLike, ArrayLike],
) -> Interval:
    """Does the text rank better when it leans toward what the probe adds, or away from it?

    Same-fold AUROC of `text + LEAN * rest` minus that of `text - LEAN * rest`; `rest` is the probe's
    score with the text's projected out, and all are z-scored within folds. It is 0 where a stack
    gains nothing. A gain is quadratic in the weight of the probe, so that where it is 0 its own
    interval is several times too wide (Demler, Pencina and D'Agostino 2012); this one is right there.

    Args:
        y: 0/1 labels `[item]`.
        text, probe, folds: `[regrouping, item]`.
        groups: group of every item `[item]`.
        training_scores: of text and of probe, `[regrouping, fold, item]`.
    """
    fold_rows = np.asarray(folds)
    toward, away = _leaning(np.asarray(text), np.asarray(probe), fold_rows)
    left_out = _leaning(np.asarray(training_scores[0]), np.asarray(training_scores[1]), fold_rows)
    return auroc_difference(
        y, toward, away, fold_rows, groups, estimand="procedure", training_scores=left_out
    )


def _leaning(
    text: Float[np.ndarray, "regrouping *fold item"],
    probe: Float[np.ndarray, "regrouping *fold item"],
    folds: Int[np.ndarray, "regrouping item"],
) -> tuple[Float[np.ndarray, "regrouping *fold item"], Float[np.ndarray, "regrouping *fold item"]]:
    """The text's scores, leaning toward what the probe adds and away from it."""
    toward, away = np.empty(text.shape), np.empty(text.shape)
    for r, fold_of in enumerate(folds):
        standard = within_fold_zscores(text[r].T, fold_of)
        rest = _projected_out(within_fold_zscores(probe[r].T, fold_of), standard, fold_of)
        toward[r], away[r] = (standard + LEAN * rest).T, (standard - LEAN * rest).T
    return toward, away


def _projected_out(
    probe: Float[np.ndarray, "item *batch"],
    text: Float[np.ndarray, "item *batch"],
    fold_of: Int[np.ndarray, "item"],
) -> Float[np.ndarray, "item *batch"]:
    """What is left of standard scores without standard others, fold by fold, standard again."""
    rest = np.zeros_like(probe)
    for fold in np.unique(fold_of):
        rows = fold_of == fold
        left = probe[rows] - text[rows] * np.mean(probe[rows] * text[rows], axis=0)
        # Of a mere copy nothing is left but rounding.
        rest[rows] = np.where(left.std(axis=0) > 1e-9, left, 0.0)
    return within_fold_zscores(rest, fold_of)

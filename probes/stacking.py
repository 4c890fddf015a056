"""Does a second predictor add anything to the first? Stacked on the same folds, cross-fitted."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.linear_model import LogisticRegression

from probes.metrics import within_fold_zscores
from probes.splits import binary_labels
from probes.uncertainty import Interval, auroc_difference


def cross_fitted_stack(
    columns: ArrayLike, y: ArrayLike, folds: ArrayLike
) -> Float[np.ndarray, "regrouping item"]:
    """Log-odds of a logistic regression on out-of-fold scores, itself fitted on the other folds.

    Args:
        columns: out-of-fold scores `[regrouping, item, predictor]`; z-scored within folds here.
        y: 0/1 labels `[item]`.
        folds: the folds that the scores were made with, `[regrouping, item]`.
    """
    values = np.asarray(columns, dtype=np.float64)
    labels = binary_labels(y)
    fold_rows = np.asarray(folds)
    if values.ndim != 3 or fold_rows.shape != values.shape[:2]:
        raise ValueError(
            f"columns must be [regrouping, item, predictor] and folds [regrouping, item], got "
            f"{values.shape} and {fold_rows.shape}"
        )
    stacked = np.empty(fold_rows.shape)
    for r, fold_of in enumerate(fold_rows):
        standard = within_fold_zscores(values[r], fold_of)
        for fold in np.unique(fold_of):
            test = fold_of == fold
            model = LogisticRegression(solver="newton-cholesky").fit(standard[~test], labels[~test])
            stacked[r, test] = model.decision_function(standard[test])
    return stacked


def stacked_gain(
    y: ArrayLike, text: ArrayLike, probe: ArrayLike, folds: ArrayLike, groups: ArrayLike
) -> Interval:
    """Same-fold AUROC of text and probe stacked, minus that of the text alone.

    Never the raw difference: two predictors of 0.80 with independent errors differ by 0 and stack
    to 0.885.

    Args:
        y: 0/1 labels `[item]`.
        text, probe: out-of-fold scores `[regrouping, item]`, or `[item]` if not trained here.
        folds: `[regrouping, item]`.
        groups: group of every item `[item]`.
    """
    fold_rows = np.atleast_2d(np.asarray(folds))
    pair = [
        np.broadcast_to(np.asarray(s, dtype=np.float64), fold_rows.shape) for s in (text, probe)
    ]
    stacked = cross_fitted_stack(np.stack(pair, axis=-1), y, fold_rows)
    return auroc_difference(y, stacked, pair[0], fold_rows, groups, estimand="procedure")

"""What training sets add to the variance of a cross-validated AUROC.

Up to second order a score of n items cross-validated in F folds is a sum over items and over pairs (test item,
training item). With the models held fixed, cluster DeLong sees the items' own share T, and half of the pairs' share Q:
a pair of items meets twice, once in either role, and DeLong knows of one. Training adds the other half, and a share of
first order besides, T / (F - 1) by the usual rule of test over training items (Nadeau and Bengio 2003).

    DeLong       T + Q / 2
    jackknife    T (1 + 1 / (F - 1)) + 2 Q
    wanted       T (1 + 1 / (F - 1)) + Q

The jackknife leaves out one fold at a time, from training as well. A pair of folds is left out with either of the two,
so that it counts Q twice (exactly so where the scale of scores does not matter, as in an AUROC). So the two that can be
computed give the one that is wanted.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from probes.metrics import winning_pairs
from probes.same_fold_pairs import Variance

FEW_REGROUPINGS = 5
"""Under so many regroupings the variance between them is hardly known."""
TRAINING = 1.0
"""What training adds, as a multiple of DeLong's variance, where no fold can be left out: that of Q alone.

Right without signal, where T is 0, and too much with it: by up to a third of the width at an AUROC of 0.85.
"""


def left_out_aurocs(
    y: Int[np.ndarray, "item"],
    training_scores: ArrayLike,
    folds: Int[np.ndarray, "regrouping item"],
) -> Float[np.ndarray, "regrouping fold"]:
    """Same-fold AUROC without each fold in turn, by models that have not seen it either.

    Args:
        y: 0/1 labels.
        training_scores: `[regrouping, fold, item]`, as `NestedResult.training_scores`; or scores of something that was
            not trained here, `[regrouping, item]` or `[item]`.
        folds: 0..F-1.

    Raises ValueError for another shape, fewer than 3 folds, and folds that are not numbered from 0.
    """
    n_regroupings, n_items = folds.shape
    n_folds = int(folds.max()) + 1
    if n_folds < 3 or not all(np.array_equal(np.unique(row), range(n_folds)) for row in folds):
        raise ValueError(
            "training_scores: need folds 0, 1, 2, ... in every regrouping, 3 at least; "
            f"got {np.unique(folds).tolist()[:10]}"
        )
    given = np.asarray(training_scores, dtype=np.float64)
    if given.ndim == 2:
        given = given[:, None]
    try:
        scores = np.broadcast_to(given, (n_regroupings, n_folds, n_items))
    except ValueError:
        raise ValueError(
            f"training_scores: shape {given.shape}; needed is [regrouping, fold, item], "
            f"here {(n_regroupings, n_folds, n_items)}"
        ) from None
    won = np.zeros((n_regroupings, n_folds, n_folds))
    pairs = np.zeros_like(won)
    for r, fold in np.ndindex(n_regroupings, n_folds):
        rows = folds[r] == fold
        without = np.arange(n_folds) != fold
        won[r, without, fold], pairs[r, without, fold] = winning_pairs(
            y[rows][:, None], scores[r, without][:, rows].T
        )
    with np.errstate(invalid="ignore"):
        return np.asarray(won.sum(axis=2) / pairs.sum(axis=2))


def procedure_variance(
    fixed: Variance,
    estimates: Float[np.ndarray, "regrouping"],
    left_out: Float[np.ndarray, "regrouping fold"],
) -> Variance:
    """Variance of the mean estimate over regroupings, training sets included.

    Args:
        fixed: cluster DeLong, mean over regroupings.
        estimates: AUROC, or difference of two.
        left_out: the same without each fold.

    Of the variance wanted the mean over regroupings takes away what varies between them, where they are enough to tell;
    never less than `fixed` is left. Degrees of freedom are Satterthwaite's, with those of the jackknife limited by the
    folds left out.
    """
    if np.isnan(left_out).any():  # without some fold there is no pair to score
        return fixed._replace(value=(1 + TRAINING) * fixed.value)
    n_regroupings, n_folds = left_out.shape
    first_order = 1 + 1 / (n_folds - 1)
    of_jackknife = (1 - first_order / 2) / (2 - first_order / 2)
    of_fixed = first_order * (1 - of_jackknife)

    blocks = (n_folds - 1) ** 2 / n_folds * float(left_out.var(axis=1, ddof=1).mean())
    between = 0.0
    if n_regroupings >= FEW_REGROUPINGS:
        between = (1 - 1 / n_regroupings) * float(estimates.var(ddof=1))
    parts = np.array([of_fixed * fixed.value, of_jackknife * blocks, between])
    value = max(parts[0] + parts[1] - parts[2], fixed.value)
    if value == 0:
        return fixed
    blocks_degrees = 1 / (1 / ((n_folds - 1) * n_regroupings) + 1 / fixed.degrees)
    degrees = np.array([fixed.degrees, blocks_degrees, max(n_regroupings - 1, 1)])
    return Variance(value, max(value**2 / float((parts**2 / degrees).sum()), 1.0))

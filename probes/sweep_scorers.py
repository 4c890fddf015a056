"""Out-of-fold scores of many label columns of one cell, by each kind of probe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from probes.batched_logistic import fit_logistic_columns
from probes.estimators import DiffMeansProbe, LDAProbe, LogisticProbe, RidgeProbe
from probes.ridge import RidgeSource

PROBES = ("diff_means", "lda", "ridge", "logistic")


@dataclass(frozen=True)
class ColumnScores:
    """Decision values of every item by the model that did not see its fold; nan where it saw one class only."""

    values: Float[np.ndarray, "C column item"]
    converged: Bool[np.ndarray, "C column"]
    """In every fold."""


Score = Callable[
    [NDArray[Any], Int[np.ndarray, "item column"], Int[np.ndarray, "item"]], ColumnScores
]
"""From features `[item, feature]`, 0/1 labels and folds."""


@dataclass(frozen=True)
class Scorer:
    """A probe over a grid of C; one that has no C stands for nan."""

    C: tuple[float, ...]
    score: Score
    in_threads: bool
    """Whether several cells may be scored at once: not on a GPU, nor by an estimator from elsewhere."""


def scorer_of(
    probe: str | BaseEstimator, C: float | Sequence[float] | None, device: str | torch.device
) -> Scorer:
    """The scorer of a probe.

    Raises ValueError for an unknown probe, a C or device that it does not take, and a device that is not there.
    """
    if isinstance(probe, str) and probe not in PROBES:
        raise ValueError(f"probe {probe!r} is unknown; choose one of {', '.join(PROBES)}")
    if probe == "logistic":
        grid = np.atleast_1d(np.asarray(LogisticProbe().C if C is None else C, dtype=np.float64))
        if grid.ndim != 1 or grid.size == 0 or not (np.isfinite(grid) & (grid > 0)).all():
            raise ValueError(f"C must be positive and at least one, got {C!r}")
        chosen = checked_device(device)
        score = partial(_logistic, C=grid.tolist(), device=chosen)
        return Scorer(tuple(grid.tolist()), score, chosen.type == "cpu")
    if C is not None:
        raise ValueError(f"C: {C!r} is for probe='logistic'; give an estimator its own")
    if torch.device(device).type != "cpu":
        raise ValueError(f"device: {str(device)!r} is for probe='logistic'; leave it out")
    if probe == "ridge":
        return Scorer((np.nan,), _ridge, True)
    if isinstance(probe, str):
        estimator = {"diff_means": DiffMeansProbe(), "lda": LDAProbe()}[probe]
        return Scorer((np.nan,), partial(_one_by_one, estimator=estimator), True)
    return Scorer((np.nan,), partial(_one_by_one, estimator=probe), False)


def checked_device(device: str | torch.device) -> torch.device:
    """The device; raises ValueError where there is none of that name."""
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(
            f"device: {str(device)!r} is not there; leave it out for the CPU"
        ) from None
    return chosen


def _logistic(
    X: NDArray[Any],
    columns: NDArray[np.int64],
    folds: NDArray[np.int64],
    *,
    C: Sequence[float],
    device: torch.device,
) -> ColumnScores:
    masks = np.array([folds != fold for fold in np.unique(folds)])
    fits = fit_logistic_columns(X, columns, masks, C, device=device)
    return ColumnScores(fits.out_of_fold(), np.asarray(fits.converged.all(axis=1)))


def _ridge(X: NDArray[Any], columns: NDArray[np.int64], folds: NDArray[np.int64]) -> ColumnScores:
    source = RidgeSource(X)
    values = np.empty((1, columns.shape[1], len(folds)))
    for fold in np.unique(folds):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        (scores,) = source.scores(train, test, 2.0 * columns[train] - 1, (RidgeProbe().alpha,))
        varies = (columns[train] != columns[train[0]]).any(axis=0)
        values[0, :, test] = np.where(varies, scores, np.nan)
    return ColumnScores(values, np.ones((1, columns.shape[1]), dtype=bool))


def _one_by_one(
    X: NDArray[Any], columns: NDArray[np.int64], folds: NDArray[np.int64], *, estimator: Any
) -> ColumnScores:
    values = np.full((1, columns.shape[1], len(folds)), np.nan)
    converged = np.ones((1, columns.shape[1]), dtype=bool)
    for column, labels in enumerate(columns.T):
        for fold in np.unique(folds):
            test = folds == fold
            if len(np.unique(labels[~test])) < 2:
                continue
            fitted = clone(estimator).fit(X[~test], labels[~test])
            values[0, column, test] = fitted.decision_function(X[test])
            converged[0, column] &= getattr(fitted, "converged_", True)
    return ColumnScores(values, converged)

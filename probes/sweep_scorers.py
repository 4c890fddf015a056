"""Out-of-fold scores of many label columns of one cell, by each kind of probe or an estimator of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from probes.column_scores import (
    PROBE_KINDS,
    ProbeKind,
    SourceScores,
    checked_device,
    checked_penalties,
    ridge_scores,
    source_scores,
)
from probes.estimators import LogisticProbe, RidgeProbe
from probes.sweep_result import Outcome

DEFAULTS: dict[ProbeKind, float] = {
    "logistic": LogisticProbe().C,
    "ridge": RidgeProbe().alpha,
    "lda": np.nan,
    "diff_means": np.nan,
}


@dataclass(frozen=True)
class ColumnScores:
    """Scores of every item by the model that did not see its fold; nan where it saw one class only."""

    values: Float[np.ndarray, "penalty column item"]
    """Decision values, or predictions in units of the target."""
    converged: Bool[np.ndarray, "penalty column"]
    """In every fold."""


Score = Callable[[NDArray[Any], NDArray[np.generic], Int[np.ndarray, "item"]], ColumnScores]
"""From features `[item, feature]`, labels `[item, column]` and folds."""


@dataclass(frozen=True)
class Scorer:
    """A probe over a grid of penalties; one that has none stands for nan."""

    penalties: tuple[float, ...]
    score: Score
    in_threads: bool
    """Whether several cells may be scored at once: not on a GPU, nor by an estimator from elsewhere."""


def scorer_of(
    probe: str | BaseEstimator,
    penalties: ArrayLike | None,
    device: str | torch.device,
    outcome: Outcome,
) -> Scorer:
    """The scorer of a probe.

    Raises ValueError for an unknown probe or outcome, an outcome, penalties or device that it does not take, and a
    device that is not there.
    """
    if outcome not in ("binary", "continuous"):
        raise ValueError(f"outcome must be 'binary' or 'continuous', got {outcome!r}")
    if outcome == "continuous" and probe != "ridge":
        raise ValueError(f"probe: {probe!r} fits classes; a continuous outcome takes 'ridge'")
    chosen = checked_device(probe, device)
    if not isinstance(probe, str):
        if penalties is not None:
            raise ValueError(f"penalties: {penalties!r} given; an estimator brings its own")
        return Scorer((np.nan,), partial(_one_by_one, estimator=probe), False)
    if probe not in PROBE_KINDS:
        raise ValueError(f"probe {probe!r} is unknown; choose one of {', '.join(PROBE_KINDS)}")
    given = DEFAULTS[probe] if penalties is None else penalties
    grid = (np.nan,) if penalties is None and np.isnan(given) else checked_penalties(probe, given)
    if outcome == "continuous":
        return Scorer(grid, _out_of_fold_by(partial(ridge_scores, alphas=grid)), True)
    sources = partial(source_scores, probe, penalties=grid, device=chosen)
    return Scorer(grid, _out_of_fold_by(sources), chosen.type == "cpu")


def _out_of_fold_by(
    sources: Callable[[NDArray[Any], NDArray[Any]], SourceScores],
) -> Score:
    def score(
        X: NDArray[Any], columns: NDArray[np.generic], folds: NDArray[np.int64]
    ) -> ColumnScores:
        names = np.unique(folds)
        parts = list(sources(X, columns)(folds != names[:, None]))
        values = np.empty((*parts[0].converged.shape, len(folds)))
        for fold, part in zip(names, parts, strict=True):
            values[..., folds == fold] = np.moveaxis(part.values, 1, 2)
        return ColumnScores(values, np.all([part.converged for part in parts], axis=0))

    return score


def _one_by_one(
    X: NDArray[Any], columns: NDArray[np.generic], folds: NDArray[np.int64], *, estimator: Any
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

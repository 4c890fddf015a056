"""Scores by each kind of probe, for many training sets, penalties and label columns of one source together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike, NDArray

from probes.batched_logistic import fit_logistic_columns
from probes.closed_forms import diff_means_scores, lda_scores
from probes.estimators import DiffMeansProbe, LDAProbe, LinearProbe, LogisticProbe, RidgeProbe
from probes.features import check_shape, dense_features
from probes.ridge import ALPHAS, Refit, RidgeSource

ProbeKind = Literal["diff_means", "lda", "ridge", "logistic"]
PROBE_KINDS: tuple[ProbeKind, ...] = get_args(ProbeKind)
C_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_GRIDS: dict[ProbeKind, tuple[float, ...]] = {
    "diff_means": (np.nan,),
    "lda": (np.nan,),
    "ridge": ALPHAS,
    "logistic": C_GRID,
}


class FoldScores(NamedTuple):
    """By the models of one training set, of the items that are not in it."""

    values: Float[np.ndarray, "penalty test column"]
    """nan for a column that has one class in the training set."""
    converged: Bool[np.ndarray, "penalty column"]


SourceScores = Callable[[Bool[np.ndarray, "mask item"]], Iterator[FoldScores]]
"""From training sets, True for the rows to train on, to the scores of each, in order."""


def default_penalties(kind: ProbeKind) -> tuple[float, ...]:
    """The grid that is tried where none is given: alpha of ridge, C of logistic; nan for the other two."""
    return _GRIDS[kind]


def checked_penalties(kind: str, penalties: ArrayLike | None) -> tuple[float, ...]:
    """Penalties in the probe's own parameter, in the order given; None for the default grid.

    Raises ValueError for an unknown kind, and for penalties that it cannot have: alpha and C are positive, a shrinkage
    lies in [0, 1] or is nan for the Ledoit-Wolf estimate, diff_means has none.
    """
    if kind not in PROBE_KINDS:
        raise ValueError(f"probe {kind!r} is unknown; choose one of {', '.join(PROBE_KINDS)}")
    if penalties is None:
        return default_penalties(kind)
    grid = np.atleast_1d(np.asarray(penalties, dtype=np.float64))
    name = {"ridge": "alpha", "logistic": "C", "lda": "shrinkage"}.get(kind)
    if name is None:
        raise ValueError(f"penalties: {penalties!r} given, but {kind} has none; leave them out")
    if kind == "lda":
        good, rule = np.isnan(grid) | ((grid >= 0) & (grid <= 1)), "in [0, 1], or nan for 'auto'"
    else:
        good, rule = np.isfinite(grid) & (grid > 0), "positive"
    if grid.ndim != 1 or grid.size == 0 or not good.all():
        raise ValueError(
            f"penalties ({name} of {kind}) must be {rule}, and at least one; got {penalties!r}"
        )
    return tuple(grid.tolist())


def checked_device(probe: object, device: str | torch.device) -> torch.device:
    """The device; raises ValueError where there is none of that name, or where the probe does not take it."""
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(
            f"device: {str(device)!r} is not there; leave it out for the CPU"
        ) from None
    if chosen.type != "cpu" and not (isinstance(probe, str) and probe == "logistic"):
        raise ValueError(f"device: {str(device)!r} is for probe='logistic'; leave it out")
    return chosen


def from_weak_to_strong(kind: ProbeKind, penalties: Sequence[float]) -> tuple[float, ...]:
    """Sorted, so that of equally good penalties the last is the safest; C is an inverse penalty."""
    by_size = sorted(penalties, key=lambda penalty: (not np.isnan(penalty), penalty))
    return tuple(reversed(by_size) if kind == "logistic" else by_size)


def probe_of(kind: ProbeKind, penalty: float = np.nan) -> LinearProbe:
    """The estimator, not fitted, that a kind and a penalty stand for; nan: the estimator's default."""
    if kind == "diff_means":
        return DiffMeansProbe()
    if np.isnan(penalty):
        return {"lda": LDAProbe, "ridge": RidgeProbe, "logistic": LogisticProbe}[kind]()
    if kind == "lda":
        return LDAProbe(shrinkage=penalty)
    return RidgeProbe(alpha=penalty) if kind == "ridge" else LogisticProbe(C=penalty)


def source_scores(
    kind: ProbeKind,
    features: ArrayLike | Refit,
    columns: NDArray[np.int64],
    penalties: Sequence[float],
    *,
    standardize: bool = True,
    device: str | torch.device = "cpu",
) -> SourceScores:
    """How one source scores 0/1 label columns `[item, column]`.

    Args:
        features: `[item, feature]`, or a callable from training rows to that; scipy sparse for ridge alone.
        penalties: as `checked_penalties` returns them.
        standardize: False for ridge alone (see `RidgeSource`).
        device: where logistic computes.
    """
    if kind == "ridge":
        of_values = ridge_scores(features, 2.0 * columns - 1, penalties, standardize=standardize)
        return lambda masks: _without_one_class(of_values(masks), masks, columns)
    if not standardize:
        raise ValueError(f"standardize: False is for probe='ridge', not {kind!r}")
    if kind == "logistic":
        return _logistic(features, columns, penalties, device)
    if kind == "lda":

        def score(X: NDArray[Any], train: NDArray[np.bool_]) -> NDArray[np.float64]:
            return lda_scores(X, train, columns, penalties)
    else:

        def score(X: NDArray[Any], train: NDArray[np.bool_]) -> NDArray[np.float64]:
            return diff_means_scores(X, train, columns)[None]

    converged = np.ones((len(penalties), columns.shape[1]), dtype=bool)
    features_of = features_by_training_set(features, len(columns))

    def of_masks(masks: Bool[np.ndarray, "mask item"]) -> Iterator[FoldScores]:
        for train in masks:
            yield FoldScores(score(features_of(train), train), converged)

    return of_masks


def ridge_scores(
    features: ArrayLike | Refit,
    targets: Float[np.ndarray, "item column"],
    alphas: Sequence[float],
    *,
    standardize: bool = True,
) -> SourceScores:
    """How one source predicts continuous targets, in their own units; arguments as in `source_scores`."""
    source = RidgeSource(_of_as_many(features, len(targets)), standardize=standardize)
    converged = np.ones((len(alphas), targets.shape[1]), dtype=bool)

    def of_masks(masks: Bool[np.ndarray, "mask item"]) -> Iterator[FoldScores]:
        for mask in masks:
            train, test = np.flatnonzero(mask), np.flatnonzero(~mask)
            yield FoldScores(source.scores(train, test, targets[train], alphas), converged)

    return of_masks


def _without_one_class(
    scores: Iterator[FoldScores], masks: NDArray[np.bool_], columns: NDArray[np.generic]
) -> Iterator[FoldScores]:
    for mask, (values, converged) in zip(masks, scores, strict=True):
        inside = columns[mask]
        varies = (inside != inside[0]).any(axis=0)
        yield FoldScores(np.where(varies, values, np.nan), converged)


def _logistic(
    features: ArrayLike | Refit,
    columns: NDArray[np.generic],
    penalties: Sequence[float],
    device: str | torch.device,
) -> SourceScores:
    """All training sets of the same features in one call, which the solver moves together."""

    def solve(X: ArrayLike, masks: NDArray[np.bool_]) -> Iterator[FoldScores]:
        fits = fit_logistic_columns(
            dense_features(X, len(columns)), columns, masks, penalties, device=device
        )
        for m, train in enumerate(masks):
            values = np.moveaxis(fits.decision[:, m][:, :, ~train], 1, 2)
            yield FoldScores(values, fits.converged[:, m])

    def of_masks(masks: Bool[np.ndarray, "mask item"]) -> Iterator[FoldScores]:
        if not callable(features):
            yield from solve(features, masks)
            return
        for train in masks:
            yield from solve(features(np.flatnonzero(train)), train[None])

    return of_masks


def features_by_training_set(
    features: ArrayLike | Refit, n_items: int
) -> Callable[[NDArray[np.bool_]], NDArray[Any]]:
    """From a training set to the features of all items, checked once where they are the same for all.

    Raises ValueError as `dense_features`.
    """
    if callable(features):
        return lambda train: dense_features(features(np.flatnonzero(train)), n_items)
    rows = dense_features(features, n_items)
    return lambda train: rows


def _of_as_many(features: ArrayLike | Refit, n_items: int) -> ArrayLike | Refit:
    """The same, dense or sparse; raises ValueError, refitted ones later, for another shape than `[item, feature]`."""
    if not callable(features):
        check_shape(features, n_items)
        return features

    def refit(train: NDArray[np.int64]) -> Any:
        check_shape(fitted := features(train), n_items)
        return fitted

    return refit

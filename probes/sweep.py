"""A quick look at every cell of a cache: one probe, fixed penalties, one set of grouped folds a target.

All columns of a cell - targets, folds, penalties, permuted labels - are solved together; cells are read one at a time.

The best row of a sweep is *not* a result: it was chosen on the scores it is shown with. Use
`nested_probe` for the score of a selected cell and `max_statistic_test` for its p-value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from probes._parallel import Progress, map_in_threads
from probes.metrics import same_fold_auroc
from probes.regression_scores import r2_interval, rank_correlations, spearman_interval
from probes.sweep_result import NAN, Cell, Outcome, SweepResult, SweepRow, SweepStore
from probes.sweep_scorers import ColumnScores, Scorer, scorer_of
from probes.sweep_targets import Target, make_target, named_labels, sharing_rows
from probes.uncertainty import auroc_interval

NULL_BAND = (0.025, 0.975)


class Reader(Protocol):
    """What a sweep needs of an activations cache."""

    def cells(self) -> Sequence[Cell]:
        """All cells that can be read."""

    def read(self, site: str, *, layer: int | None, position: str) -> NDArray[np.float32]:
        """Activations `[item, d_model]`, items in the same order for every cell."""


def sweep(
    reader: Reader | Mapping[Cell, ArrayLike],
    y: ArrayLike | Mapping[str, ArrayLike],
    *,
    groups: ArrayLike,
    probe: str | BaseEstimator = "logistic",
    outcome: Outcome = "binary",
    penalties: float | Sequence[float] | None = None,
    folds: ArrayLike | None = None,
    n_folds: int = 5,
    n_permutations: int = 0,
    seed: int = 0,
    device: str | torch.device = "cpu",
    store: SweepStore | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Out-of-fold scores of one probe in every cell, for every target and penalty.

    Args:
        reader: an `ActivationsCache`, anything with its `cells` and `read`, or arrays `[item, feature]` by cell.
        y: labels `[item]` in the reader's order, nan for unlabeled; or such labels by the target's name.
        groups: group of every item `[item]`; groups never straddle folds.
        probe: "diff_means", "lda", "ridge", "logistic", or an estimator of your own parameters.
        outcome: what all labels are: "binary" (0 and 1), or "continuous" (rates or counts), which takes "ridge".
        penalties: one or several in the probe's own parameter: C of "logistic" (`fit_logistic_columns` says what
            range), alpha of "ridge", shrinkage of "lda" (nan: Ledoit-Wolf); default that of its estimator.
        folds: fold of every item `[item]`, for all targets; default `grouped_folds` (of values) of each target's
            labeled items. Targets with the same items and folds are solved together.
        n_folds: of the default folds.
        n_permutations: whole-group permutations of every target's labels, for `null`.
        seed: of folds and permutations.
        device: where "logistic" computes. On the CPU a cell takes one core, and as many are held in memory as there
            are cores; on a GPU, and for an estimator of your own, there is one cell at a time.
        store: finished cells are put there and taken from there, so that a sweep that was stopped goes on.
        progress: called with (cells done, cells in all).

    Labels that cannot be scored (one class, too few items or groups) give rows with the reason in
    `skipped`, and a fit that did not converge a row that says so. Raises ValueError for an unknown probe, target labels
    that are not those of the outcome, a wrong number of labels, a group in two folds, nan or inf (naming cell and
    item), an outcome, penalties or a device that the probe does not take.
    """
    scorer = scorer_of(probe, penalties, device, outcome)
    group_of = np.asarray(groups)
    fold_of = None if folds is None else np.asarray(folds)
    if fold_of is not None and fold_of.shape != group_of.shape:
        raise ValueError(f"folds has shape {fold_of.shape} and groups {group_of.shape}")
    if n_permutations < 0:
        raise ValueError(f"n_permutations must be at least 0, got {n_permutations}")
    targets = [
        make_target(
            name,
            labels,
            group_of,
            fold_of,
            outcome=outcome,
            n_folds=n_folds,
            n_permutations=n_permutations,
            seed=seed,
        )
        for name, labels in named_labels(y).items()
    ]
    source = _Arrays(reader) if isinstance(reader, Mapping) else reader
    shared = sharing_rows(targets)
    skipped = [target for target in targets if target.skipped is not None]
    one_at_a_time = Lock()

    def evaluate(cell: Cell) -> SweepResult:
        if store is not None:
            with one_at_a_time:
                kept = store.get(cell)
            if kept is not None:
                return kept
        found = {
            target.name: _skipped(cell, target, scorer.penalties, n_permutations)
            for target in skipped
        }
        if shared:
            with one_at_a_time:  # a reader need not be safe for threads
                X = _read(source, cell, len(group_of))
            for members in shared:
                found |= _score(cell, X, members, scorer, outcome)
        rows = [row for target in targets for row in found[target.name]]
        null = np.array([permuted for _, permuted in rows]).reshape(len(rows), n_permutations)
        result = SweepResult(outcome, tuple(row for row, _ in rows), null)
        if store is not None:
            with one_at_a_time:
                store.put(cell, result)
        return result

    workers = None if scorer.in_threads else 1
    parts = map_in_threads(evaluate, list(source.cells()), progress, workers=workers)
    return SweepResult.joined(outcome, parts, n_permutations)


_RowWithNull = tuple[SweepRow, NDArray[np.float64]]


class _Arrays:
    """Arrays by cell, read as a cache is."""

    def __init__(self, arrays: Mapping[Cell, ArrayLike]) -> None:
        self._arrays = arrays

    def cells(self) -> Sequence[Cell]:
        return list(self._arrays)

    def read(self, site: str, *, layer: int | None, position: str) -> NDArray[np.float32]:
        return np.asarray(self._arrays[site, layer, position])


def _score(
    cell: Cell, X: NDArray[Any], targets: Sequence[Target], scorer: Scorer, outcome: Outcome
) -> dict[str, list[_RowWithNull]]:
    """The rows of targets with the same items and folds."""
    items, folds = targets[0].rows, targets[0].folds
    columns = np.hstack([target.columns for target in targets])
    scores = scorer.score(X if len(items) == len(X) else X[items], columns, folds)
    statistics = (_aurocs if outcome == "binary" else _spearmans)(columns, scores, folds)
    found = {}
    start = 0
    for target in targets:
        own = slice(start + 1, start + target.columns.shape[1])
        found[target.name] = [
            (
                _row(
                    cell,
                    target,
                    penalty,
                    _scores(target, scores.values[p, start], outcome),
                    statistics[p, own],
                    converged=bool(scores.converged[p, start]),
                ),
                statistics[p, own],
            )
            for p, penalty in enumerate(scorer.penalties)
        ]
        start = own.stop
    return found


def _scores(target: Target, values: NDArray[np.float64], outcome: Outcome) -> dict[str, Any]:
    """The entries of a row that hold scores and their intervals."""
    given = (target.labels, values, target.folds, target.groups)
    if outcome == "binary":
        auroc = auroc_interval(*given, estimand="procedure")
        return {"auroc": auroc.estimate, "ci_low": auroc.low, "ci_high": auroc.high}
    named: dict[str, Any] = {}
    for name, interval_of in (("r2", r2_interval), ("spearman", spearman_interval)):
        interval = interval_of(*given, estimand="procedure")
        ends = {f"{name}_low": interval.low, f"{name}_high": interval.high}
        named |= {name: interval.estimate, **ends}
    return named


def _row(
    cell: Cell,
    target: Target,
    penalty: float,
    scores: Mapping[str, Any],
    null: NDArray[np.float64],
    *,
    converged: bool,
) -> SweepRow:
    low, high = np.nanquantile(null, NULL_BAND) if np.isfinite(null).any() else (NAN, NAN)
    site, layer, position = cell
    row = SweepRow(
        site=site,
        layer=layer,
        position=position,
        target=target.name,
        penalty=penalty,
        null_low=float(low),
        null_high=float(high),
        n=len(target.rows),
        n_groups=target.n_groups,
        converged=converged,
        skipped=target.skipped,
    )
    return replace(row, **scores)


def _aurocs(
    columns: NDArray[np.generic], scores: ColumnScores, folds: NDArray[np.int64]
) -> Float[np.ndarray, "penalty column"]:
    """Same-fold AUROC of every column; nan where a permutation left a fold's training rows with one class."""
    values = np.moveaxis(scores.values, -1, 0)
    unknown = np.isnan(values).any(axis=0)
    aurocs = same_fold_auroc(columns[:, None], np.where(unknown, 0.0, values), folds)
    return np.where(unknown, NAN, aurocs)


def _spearmans(
    columns: NDArray[np.float64], scores: ColumnScores, folds: NDArray[np.int64]
) -> Float[np.ndarray, "penalty column"]:
    return np.stack([rank_correlations(columns, one.T, folds) for one in scores.values])


def _skipped(
    cell: Cell, target: Target, penalties: Sequence[float], n_permutations: int
) -> list[_RowWithNull]:
    null = np.full(n_permutations, NAN)
    return [(_row(cell, target, penalty, {}, null, converged=False), null) for penalty in penalties]


def _read(reader: Reader, cell: Cell, n_items: int) -> NDArray[Any]:
    site, layer, position = cell
    X = np.asarray(reader.read(site, layer=layer, position=position))
    where = f"cell ({site}, {layer}, {position})"
    if len(X) != n_items:
        raise ValueError(f"y has {n_items} labels but {where} has {len(X)} items; align them")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{where} holds {X.dtype}, no numbers; capture it again")
    finite = np.isfinite(X).all(axis=1)
    if not finite.all():
        item = int(np.argmin(finite))
        ids = getattr(reader, "ids", None)
        named = f" ({ids[item]!r})" if ids is not None else ""
        raise ValueError(f"{where}: nan or inf at item {item}{named}; capture it again")
    return X

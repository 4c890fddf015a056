"""A quick look at every cell of a cache: one probe, fixed penalties, one set of grouped folds a target.

All columns of a cell - targets, folds, penalties, permuted labels - are solved together; cells are read one at a time.

The best row of a sweep is *not* a result: it was chosen on the scores it is shown with. Use
`nested_ridge` for the score of a selected cell and `max_statistic_test` for its p-value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from probes._parallel import Progress, map_in_threads
from probes.metrics import same_fold_auroc
from probes.sweep_scorers import ColumnScores, Scorer, scorer_of
from probes.sweep_targets import Target, make_target, named_labels, sharing_rows
from probes.uncertainty import auroc_interval

Cell = tuple[str, int | None, str]
"""(site, layer, position); layer is None for sites without layers."""
NULL_BAND = (0.025, 0.975)
NAN = float("nan")


class Reader(Protocol):
    """What a sweep needs of an activations cache."""

    def cells(self) -> Sequence[Cell]:
        """All cells that can be read."""

    def read(self, site: str, *, layer: int | None, position: str) -> NDArray[np.float32]:
        """Activations `[item, d_model]`, items in the same order for every cell."""


@dataclass(frozen=True)
class SweepRow:
    """Same-fold AUROC of one cell, target and C; nan where `skipped` names a reason."""

    site: str
    layer: int | None
    position: str
    target: str
    C: float
    """Inverse penalty; nan for a probe that has none."""
    auroc: float
    ci_low: float
    ci_high: float
    null_low: float
    """The central 95% of this row's AUROC under permuted labels; nan without permutations."""
    null_high: float
    n: int
    """Labeled items."""
    n_groups: int
    converged: bool
    """Whether the fit of every fold did."""
    skipped: str | None


@dataclass(frozen=True)
class SweepResult:
    """The rows of a sweep: cells in the reader's order, within them targets, within them C, as given."""

    rows: tuple[SweepRow, ...]
    null: Float[np.ndarray, "row permutation"]
    """AUROC under permuted labels, which are the same for all cells of a target; nan in skipped rows."""

    def to_frame(self) -> pd.DataFrame:
        """A row a cell, target and C."""
        return pd.DataFrame([asdict(row) for row in self.rows])


def sweep(
    reader: Reader | Mapping[Cell, ArrayLike],
    y: ArrayLike | Mapping[str, ArrayLike],
    *,
    groups: ArrayLike,
    probe: str | BaseEstimator = "logistic",
    C: float | Sequence[float] | None = None,
    folds: ArrayLike | None = None,
    n_folds: int = 5,
    n_permutations: int = 0,
    seed: int = 0,
    device: str | torch.device = "cpu",
    progress: Progress | None = None,
) -> SweepResult:
    """Out-of-fold AUROC of one probe in every cell, for every target and C.

    Args:
        reader: an `ActivationsCache`, anything with its `cells` and `read`, or arrays `[item, feature]` by cell.
        y: labels `[item]` in the reader's order, 0, 1 or nan for unlabeled; or such labels by the target's name.
        groups: group of every item `[item]`; groups never straddle folds.
        probe: "diff_means", "lda", "ridge", "logistic", or an estimator of your own parameters.
        C: inverse penalties for "logistic" (`fit_logistic_columns` says what range); default that of `LogisticProbe`.
        folds: fold of every item `[item]`, for all targets; default `grouped_folds` of each target's labeled items.
            Targets with the same items and folds are solved together.
        n_folds: of the default folds.
        n_permutations: whole-group permutations of every target's labels, for `null`.
        seed: of folds and permutations.
        device: where "logistic" computes. On the CPU a cell takes one core, and as many are held in memory as there
            are cores; on a GPU, and for an estimator of your own, there is one cell at a time.
        progress: called with (cells done, cells in all).

    Labels that cannot be scored (one class, too few items or groups) give rows with the reason in
    `skipped`, and a fit that did not converge a row that says so. Raises ValueError for an unknown probe, target labels
    that are not 0, 1 and nan, a wrong number of labels, a group in two folds, nan or inf (naming cell and item), a C
    or device that the probe does not take.
    """
    scorer = scorer_of(probe, C, device)
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

    def evaluate(cell: Cell) -> list[_RowWithNull]:
        found = {
            target.name: _skipped(cell, target, scorer.C, n_permutations) for target in skipped
        }
        if shared:
            with one_at_a_time:  # a reader need not be safe for threads
                X = _read(source, cell, len(group_of))
            for members in shared:
                found |= _score(cell, X, members, scorer)
        return [row for target in targets for row in found[target.name]]

    workers = None if scorer.in_threads else 1
    cells = map_in_threads(evaluate, list(source.cells()), progress, workers=workers)
    rows = [row for cell in cells for row in cell]
    null = np.array([permuted for _, permuted in rows]).reshape(len(rows), n_permutations)
    return SweepResult(tuple(row for row, _ in rows), null)


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
    cell: Cell, X: NDArray[Any], targets: Sequence[Target], scorer: Scorer
) -> dict[str, list[_RowWithNull]]:
    """The rows of targets with the same items and folds."""
    items, folds, groups = targets[0].rows, targets[0].folds, targets[0].groups
    columns = np.hstack([target.columns for target in targets])
    scores = scorer.score(X if len(items) == len(X) else X[items], columns, folds)
    aurocs = _aurocs(columns, scores, folds)
    found = {}
    start = 0
    for target in targets:
        own = slice(start + 1, start + target.columns.shape[1])
        rows = []
        for c, C in enumerate(scorer.C):
            interval = auroc_interval(
                target.labels, scores.values[c, start], folds, groups, estimand="procedure"
            )
            null = aurocs[c, own]
            low, high = np.nanquantile(null, NULL_BAND) if np.isfinite(null).any() else (NAN, NAN)
            row = SweepRow(
                *cell,
                target=target.name,
                C=C,
                auroc=interval.estimate,
                ci_low=interval.low,
                ci_high=interval.high,
                null_low=float(low),
                null_high=float(high),
                n=len(items),
                n_groups=interval.n_groups,
                converged=bool(scores.converged[c, start]),
                skipped=None,
            )
            rows.append((row, null))
        found[target.name] = rows
        start = own.stop
    return found


def _aurocs(
    columns: NDArray[np.int64], scores: ColumnScores, folds: NDArray[np.int64]
) -> Float[np.ndarray, "C column"]:
    """Same-fold AUROC of every column; nan where a permutation left a fold's training rows with one class."""
    values = np.moveaxis(scores.values, -1, 0)
    unknown = np.isnan(values).any(axis=0)
    aurocs = same_fold_auroc(columns[:, None], np.where(unknown, 0.0, values), folds)
    return np.where(unknown, NAN, aurocs)


def _skipped(
    cell: Cell, target: Target, grid: Sequence[float], n_permutations: int
) -> list[_RowWithNull]:
    def row(C: float) -> SweepRow:
        return SweepRow(
            *cell,
            target=target.name,
            C=C,
            auroc=NAN,
            ci_low=NAN,
            ci_high=NAN,
            null_low=NAN,
            null_high=NAN,
            n=len(target.rows),
            n_groups=target.n_groups,
            converged=False,
            skipped=target.skipped,
        )

    return [(row(C), np.full(n_permutations, NAN)) for C in grid]


def _read(reader: Reader, cell: Cell, n_items: int) -> NDArray[Any]:
    site, layer, position = cell
    X = np.asarray(reader.read(site, layer=layer, position=position))
    where = f"cell ({site}, {layer}, {position})"
    if len(X) != n_items:
        raise ValueError(f"y has {n_items} labels but {where} has {len(X)} items; align them")
    finite = np.isfinite(X).all(axis=1)
    if not finite.all():
        item = int(np.argmin(finite))
        ids = getattr(reader, "ids", None)
        named = f" ({ids[item]!r})" if ids is not None else ""
        raise ValueError(f"{where}: nan or inf at item {item}{named}; capture it again")
    return X

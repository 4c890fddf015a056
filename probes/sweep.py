"""A quick look at every cell of a cache: one probe, fixed penalty, one set of grouped folds.

The best row of a sweep is *not* a result: it was chosen on the scores it is shown with. Use
`nested_ridge` for the score of a selected cell and `max_statistic_test` for its p-value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from threadpoolctl import threadpool_limits

from probes.estimators import DiffMeansProbe, LDAProbe, LogisticProbe, RidgeProbe
from probes.splits import binary_labels, grouped_folds, skip_reason
from probes.uncertainty import auroc_interval

PROBES: Mapping[str, type[BaseEstimator]] = {
    "diff_means": DiffMeansProbe,
    "lda": LDAProbe,
    "ridge": RidgeProbe,
    "logistic": LogisticProbe,
}
Cell = tuple[str, int | None, str]
"""(site, layer, position); layer is None for sites without layers."""


class Reader(Protocol):
    """What a sweep needs of an activations cache."""

    def cells(self) -> Sequence[Cell]:
        """All cells that can be read."""

    def read(self, site: str, *, layer: int | None, position: str) -> NDArray[np.float32]:
        """Activations `[item, d_model]`, items in the same order for every cell."""


@dataclass(frozen=True)
class SweepRow:
    """One cell's same-fold AUROC; nan where `skipped` names a reason."""

    site: str
    layer: int | None
    position: str
    auroc: float
    ci_low: float
    ci_high: float
    n: int
    n_groups: int
    converged: bool
    skipped: str | None


@dataclass(frozen=True)
class SweepResult:
    """The rows of a sweep, in the reader's order of cells."""

    rows: tuple[SweepRow, ...]

    def to_frame(self) -> pd.DataFrame:
        """A row a cell."""
        return pd.DataFrame([asdict(row) for row in self.rows])


def sweep(
    reader: Reader,
    y: ArrayLike,
    *,
    groups: ArrayLike,
    probe: str | BaseEstimator = "logistic",
    n_folds: int = 5,
    seed: int = 0,
) -> SweepResult:
    """Out-of-fold AUROC of one probe in every cell.

    Args:
        reader: an `ActivationsCache`, or anything with its `cells` and `read`.
        y: 0/1 labels `[item]`, in the reader's order.
        groups: group of every item `[item]`; groups never straddle folds.
        probe: "diff_means", "lda", "ridge", "logistic", or an estimator of your own parameters.

    Labels that cannot be scored (one class, too few items or groups) give rows with the reason in
    `skipped`. Raises ValueError for an unknown probe, a wrong number of labels, nan or inf.
    """
    if isinstance(probe, str):
        if probe not in PROBES:
            raise ValueError(f"probe {probe!r} is unknown; choose one of {', '.join(PROBES)}")
        estimator = PROBES[probe]()
    else:
        estimator = probe
    labels = binary_labels(y)
    n, n_groups = len(labels), len(np.unique(np.asarray(groups)))
    reason = skip_reason(labels, groups, n_folds)
    if reason is not None:
        nan = float("nan")
        return SweepResult(
            tuple(
                SweepRow(*cell, nan, nan, nan, n, n_groups, False, reason)
                for cell in reader.cells()
            )
        )
    folds = grouped_folds(labels, groups, n_folds, seed)
    rows = []
    # Threads of BLAS cost more than they give on matrices of this size.
    with threadpool_limits(1, user_api="blas"):
        for cell in reader.cells():
            X = _read(reader, cell, n)
            scores, converged = _out_of_fold(estimator, X, labels, folds)
            auroc = auroc_interval(labels, scores, folds, groups, estimand="procedure")
            numbers = auroc.estimate, auroc.low, auroc.high
            rows.append(SweepRow(*cell, *numbers, n, n_groups, converged, None))
    return SweepResult(tuple(rows))


def _read(reader: Reader, cell: Cell, n_items: int) -> NDArray[Any]:
    site, layer, position = cell
    X = np.asarray(reader.read(site, layer=layer, position=position))
    where = f"cell ({site}, {layer}, {position})"
    if len(X) != n_items:
        raise ValueError(f"y has {n_items} labels but {where} has {len(X)} items; align them")
    finite = np.isfinite(X).all(axis=1)
    if not finite.all():
        raise ValueError(f"{where}: nan or inf at item {int(np.argmin(finite))}; capture it again")
    return X


def _out_of_fold(
    estimator: Any, X: NDArray[Any], labels: NDArray[np.int64], folds: NDArray[np.int64]
) -> tuple[NDArray[np.float64], bool]:
    scores = np.empty(len(labels))
    converged = True
    for fold in np.unique(folds):
        test = folds == fold
        fitted = clone(estimator).fit(X[~test], labels[~test])
        scores[test] = fitted.decision_function(X[test])
        converged &= getattr(fitted, "converged_", True)
    return scores, converged

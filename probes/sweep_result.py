"""What a sweep gives: a row a cell, target and penalty, and its null; and where finished cells can be kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

import numpy as np
import pandas as pd
from jaxtyping import Float

Cell = tuple[str, int | None, str]
"""(site, layer, position); layer is None for sites without layers."""
Outcome = Literal["binary", "continuous"]
"""Of all targets: classes 0 and 1, scored by AUROC; or rates or counts, scored by R-squared and Spearman."""


NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class SweepRow:
    """Same-fold scores of one cell, target and penalty; nan where `skipped` says why; nan of the other outcome."""

    site: str
    layer: int | None
    position: str
    target: str
    penalty: float
    """In the probe's own parameter: C of logistic (an inverse penalty), alpha of ridge, shrinkage of lda; else nan."""
    auroc: float = NAN
    ci_low: float = NAN
    ci_high: float = NAN
    r2: float = NAN
    r2_low: float = NAN
    r2_high: float = NAN
    spearman: float = NAN
    spearman_low: float = NAN
    spearman_high: float = NAN
    null_low: float = NAN
    """The central 95% of this row's AUROC (or Spearman) under permuted labels; nan without permutations."""
    null_high: float = NAN
    n: int
    """Labeled items."""
    n_groups: int
    converged: bool
    """Whether the fit of every fold did."""
    skipped: str | None


_OF_OTHER_OUTCOME: dict[Outcome, list[str]] = {
    "binary": ["r2", "r2_low", "r2_high", "spearman", "spearman_low", "spearman_high"],
    "continuous": ["auroc", "ci_low", "ci_high"],
}


@dataclass(frozen=True)
class SweepResult:
    """The rows of a sweep: cells in the reader's order, within them targets, within them penalties, as given."""

    outcome: Outcome
    rows: tuple[SweepRow, ...]
    null: Float[np.ndarray, "row permutation"]
    """AUROC (or Spearman) under permuted labels, which are the same for all cells of a target; nan in skipped rows."""

    @staticmethod
    def joined(outcome: Outcome, parts: Sequence[SweepResult], n_permutations: int) -> SweepResult:
        """One after the other."""
        rows = tuple(row for part in parts for row in part.rows)
        null = np.concatenate([np.empty((0, n_permutations)), *(part.null for part in parts)])
        return SweepResult(outcome, rows, null)

    def to_frame(self) -> pd.DataFrame:
        """A row a cell, target and penalty, with the scores of its outcome."""
        table = pd.DataFrame([asdict(row) for row in self.rows])
        return table.drop(columns=_OF_OTHER_OUTCOME[self.outcome], errors="ignore")


class SweepStore(Protocol):
    """Keeps the finished cells of one sweep, so that a sweep that was stopped goes on where it was.

    It must belong to the same sweep: same items, labels, folds, probe, penalties and seed, which only its owner can
    know. Calls never overlap.
    """

    def get(self, cell: Cell) -> SweepResult | None:
        """The rows of a finished cell, or None."""

    def put(self, cell: Cell, result: SweepResult) -> None:
        """Keep the rows of a finished cell."""

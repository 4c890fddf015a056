"""A sample of a sweep's fits by scikit-learn's logistic regression in a joblib pool: the rival of the probes bench."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

CELLS_A_SAMPLE = 2
"""For so many cells and every C the folds of one label column are sampled: 750 fits of 30 layers x 2 positions."""


@dataclass(frozen=True)
class Unit:
    """A label column with a C in a cell: as many fits as folds."""

    cell: int
    target: int
    column: int
    C: float


@dataclass(frozen=True)
class Fitted:
    """The fits of a unit."""

    scores: Float[np.ndarray, "item"]
    """Out of fold."""
    seconds: list[float]
    """Of every fold's fit."""


@dataclass(frozen=True)
class Sample:
    """Units of the cells of one round; those of a larger C, which take longer, first, so that no core waits long."""

    units: list[Unit]

    @staticmethod
    def draw(
        rng: np.random.Generator, n_cells: int, shape: tuple[int, ...], grid: Sequence[float]
    ) -> Sample:
        """The same number of every C."""
        return Sample(
            [
                Unit(
                    int(rng.integers(n_cells)),
                    int(rng.integers(shape[0])),
                    int(rng.integers(shape[1])),
                    C,
                )
                for C in sorted(grid, reverse=True)
                for _ in range(math.ceil(n_cells / CELLS_A_SAMPLE))
            ]
        )

    def __len__(self) -> int:
        return len(self.units)

    def fit(
        self,
        pool: Parallel,
        folder: Path,
        columns: Int[np.ndarray, "target column item"],
        folds: Int[np.ndarray, "item"],
        fit: Callable[..., tuple[np.ndarray, float]],
    ) -> list[Fitted]:
        """Every unit in every fold, in the pool."""
        names = np.unique(folds)
        done = pool(
            delayed(fit)(
                folder / f"{one.cell}-{fold}.npy",
                columns[one.target, one.column],
                folds != fold,
                one.C,
            )
            for one in self.units
            for fold in names
        )
        fitted = []
        for start in range(0, len(done), len(names)):
            scores = np.empty(len(folds))
            own = done[start : start + len(names)]
            for fold, (decision, _) in zip(names, own, strict=True):
                scores[folds == fold] = decision
            fitted.append(Fitted(scores, [took for _, took in own]))
        return fitted


def write_standardized(
    cells: Iterable[np.ndarray], folds: Int[np.ndarray, "item"], folder: Path
) -> None:
    """All rows of a cell, standardized without one fold, a file each."""
    for number, X in enumerate(cells):
        for fold in np.unique(folds):
            Z = StandardScaler().fit(X[folds != fold]).transform(X)
            np.save(folder / f"{number}-{fold}.npy", Z.astype(np.float32))


def default_tolerance(
    path: Path, y: np.ndarray, train: np.ndarray, C: float
) -> tuple[np.ndarray, float]:
    """Decision values of the rows that are not trained on, and the seconds that they took."""
    Z = np.load(path)
    start = time.perf_counter()
    model = LogisticRegression(C=C, max_iter=1000).fit(Z[train], y[train])
    decision = model.decision_function(Z[~train])
    return decision, time.perf_counter() - start


def converged(path: Path, y: np.ndarray, train: np.ndarray, C: float) -> tuple[np.ndarray, float]:
    """The same to convergence, in float64."""
    Z = np.load(path).astype(np.float64)
    model = LogisticRegression(C=C, tol=1e-9, max_iter=1000, solver="newton-cholesky")
    return model.fit(Z[train], y[train]).decision_function(Z[~train]), 0.0

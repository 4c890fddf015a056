"""L2-penalized logistic regression of one cell: all labelings, training sets and penalties at once.

Every fit minimizes the objective of scikit-learn's `LogisticRegression(C)` on rows that are standardized on its own
training rows: `C * sum(log loss) + |w|^2 / 2`, intercept unpenalized. `solver_eigenbasis` and `solver_logistic` hold
the method; this module sorts label columns into problems that share training rows, and the solutions into arrays.

Decision values of different masks come from different models: score `out_of_fold` within folds only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from probes.solver_eigenbasis import Eigenbasis, eigenbasis
from probes.solver_logistic import LogisticBatch, base_rate_fits, solve

CPU_COLUMNS = 256
"""Columns that move together: enough to feed the matrix products, few enough for the caches."""
GPU_COLUMNS = 8192
CPU_BYTES = 2**26
"""Of the decompositions that are held at once: training sets with few columns each would else pile up."""
GPU_BYTES = 2**32


@dataclass(frozen=True)
class LogisticColumns:
    """The fits of every C, training mask and label column, in the order in which they were given.

    A column with one class among its training rows has no solution: `converged` is False, `n_iter` 0, the rest nan.
    """

    C: Float[np.ndarray, "C"]
    train_masks: Bool[np.ndarray, "mask item"]
    decision: Float[np.ndarray, "C mask column item"]
    """Decision values of all items, trained on or not; float32."""
    objective: Float[np.ndarray, "C mask column"]
    converged: Bool[np.ndarray, "C mask column"]
    n_iter: Int[np.ndarray, "C mask column"]
    direction: Float[np.ndarray, "C mask column feature"] | None
    """Weights on raw features: `X @ direction + intercept` are the decision values. None unless asked for."""
    intercept: Float[np.ndarray, "C mask column"] | None

    def out_of_fold(self) -> Float[np.ndarray, "C column item"]:
        """Decision values of every item by the one fit that did not see its fold.

        Raises ValueError unless every item is left out by exactly one mask.
        """
        left_out = ~self.train_masks
        counts = left_out.sum(axis=0)
        if (counts != 1).any():
            item = int(np.argmax(counts != 1))
            raise ValueError(
                f"train_masks: {counts[item]} of them leave out item {item}, not 1; "
                "fit with `folds != fold` for every fold of one set of folds"
            )
        by_item = self.decision[:, left_out.argmax(axis=0), :, np.arange(left_out.shape[1])]
        return np.moveaxis(by_item, 0, -1)


def fit_logistic_columns(
    X: ArrayLike,
    Y: ArrayLike,
    train_masks: ArrayLike,
    C: Sequence[float],
    *,
    device: str | torch.device = "cpu",
    tol: float = 1e-5,
    max_iter: int = 500,
    weights: bool = False,
) -> LogisticColumns:
    """Fit one logistic regression a C, training mask and label column.

    Args:
        X: features of one cell `[item, feature]`.
        Y: labels `[item, column]`, 0 and 1; nan where an item has none, which leaves it out of the column's training
            rows. Columns that lack the same items share a decomposition a mask; every other set of them costs one.
        train_masks: True for the rows to train on `[mask, item]`; for folds, `folds != fold` of every fold.
        C: inverse penalties as scikit-learn's, positive. Each is solved from the solution for the next smaller one.
            Meant for 1e-5 to 100: from about 100 on float32 can stall short of `tol`, which `converged` records, and
            below about 1e-5 the weights are so small that decision values lose digits beside the intercept.
        device: where to compute; standardization and decompositions in float64, the search in float32.
        tol: when a column is finished: length of its Newton step over that of its weights, both in the metric of the
            approximate Hessian, that is about the relative error of its decision values.
        max_iter: most steps a C; `converged` says for which columns they sufficed.
        weights: return directions and intercepts on raw features as well.

    Raises ValueError for shapes that do not agree, nan or inf in X, labels other than 0, 1 and nan, and C, tol
    or max_iter that is not positive.
    """
    features, labels, masks, grid = _checked(X, Y, train_masks, C)
    if not tol > 0:
        raise ValueError(f"tol must be positive, got {tol!r}")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter!r}")
    shape = (len(grid), len(masks), labels.shape[1])
    decision = np.full((*shape, len(features)), np.nan, dtype=np.float32)
    objective = np.full(shape, np.nan)
    converged = np.zeros(shape, dtype=bool)
    n_iter = np.zeros(shape, dtype=np.int64)
    direction = np.full((*shape, features.shape[1]), np.nan) if weights else None
    intercept = np.full(shape, np.nan) if weights else None

    for problems in _blocks(features, labels, masks, torch.device(device)):
        batch = LogisticBatch.of(
            [one.basis for one in problems],
            [one.train for one in problems],
            [one.labels for one in problems],
        )
        fits = base_rate_fits(batch)
        for c in np.argsort(grid, kind="stable"):
            fits = solve(batch, float(grid[c]), fits, tol=tol, max_iter=max_iter)
            for f, one in enumerate(problems):
                at = (c, one.mask, one.columns)
                own = slice(0, len(one.columns))
                found = fits.weights[f, own, : len(one.basis.eigenvalues)]
                values = found @ one.basis.rows.T
                decision[at] = values.cpu().numpy()
                objective[at] = one.objective(values, found, fits.C).cpu().numpy()
                converged[at] = fits.converged[f, own].cpu().numpy()
                n_iter[at] = fits.n_iter[f, own].cpu().numpy()
                if direction is not None and intercept is not None:
                    raw, offset = one.basis.to_raw(found.double())
                    direction[at], intercept[at] = raw.cpu().numpy(), offset.cpu().numpy()
    return LogisticColumns(
        grid, masks, decision, objective, converged, n_iter, direction, intercept
    )


@dataclass(frozen=True)
class _Problem:
    """Label columns that are trained on the same rows."""

    mask: int
    columns: Int[np.ndarray, "column"]
    basis: Eigenbasis
    train: Int[Tensor, "train"]
    labels: Float[Tensor, "column train"]

    @property
    def n_bytes(self) -> int:
        """Of the decomposition, its rows counted twice: a batch holds a copy."""
        return 2 * self.basis.rows.nbytes + self.basis.axes.nbytes

    def objective(
        self, values: Float[Tensor, "column item"], found: Float[Tensor, "column 1+rank"], C: float
    ) -> Float[Tensor, "column"]:
        margins = (2 * self.labels - 1) * values[:, self.train]
        losses = -torch.nn.functional.logsigmoid(margins).sum(1, dtype=torch.float64)
        return C * losses + found[:, 1:].square().sum(1, dtype=torch.float64) / 2


def _blocks(
    features: NDArray[np.float64],
    labels: NDArray[np.float64],
    masks: NDArray[np.bool_],
    device: torch.device,
) -> Iterator[list[_Problem]]:
    """The problems, as many at a time as are solved together."""
    on_cpu = device.type == "cpu"
    room, memory = (CPU_COLUMNS, CPU_BYTES) if on_cpu else (GPU_COLUMNS, GPU_BYTES)
    block: list[_Problem] = []
    for problem in _problems(features, labels, masks, device):
        widened = [*block, problem]
        too_wide = len(widened) * max(len(one.columns) for one in widened) > room
        if block and (too_wide or sum(one.n_bytes for one in widened) > memory):
            yield block
            block = []
        block.append(problem)
    if block:
        yield block


def _problems(
    features: NDArray[np.float64],
    labels: NDArray[np.float64],
    masks: NDArray[np.bool_],
    device: torch.device,
) -> Iterator[_Problem]:
    X = torch.as_tensor(features, device=device)
    patterns, pattern_of = np.unique(~np.isnan(labels), axis=1, return_inverse=True)
    for m, mask in enumerate(masks):
        for pattern, labeled in enumerate(patterns.T):
            train = np.flatnonzero(mask & labeled)
            columns = np.flatnonzero(pattern_of.ravel() == pattern)
            y = labels[np.ix_(train, columns)].T
            solvable = (y != y[:, :1]).any(axis=1)
            if solvable.any():
                rows = torch.as_tensor(train, device=device)
                given = torch.as_tensor(y[solvable], device=device, dtype=torch.float32)
                yield _Problem(m, columns[solvable], eigenbasis(X, rows), rows, given)


def _checked(
    X: ArrayLike, Y: ArrayLike, train_masks: ArrayLike, C: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    features = np.asarray(X, dtype=np.float64)
    labels = np.asarray(Y, dtype=np.float64)
    masks = np.asarray(train_masks)
    grid = np.asarray(C, dtype=np.float64)
    if features.ndim != 2:
        raise ValueError(f"X must be [item, feature], got shape {features.shape}")
    if labels.ndim != 2 or labels.size == 0 or len(labels) != len(features):
        raise ValueError(f"Y must be [item, column] of {len(features)} items, got {labels.shape}")
    if masks.dtype != bool or masks.ndim != 2 or masks.shape[1] != len(features):
        raise ValueError(
            f"train_masks must be bool [mask, item] of {len(features)} items, "
            f"got {masks.dtype} {masks.shape}"
        )
    if grid.ndim != 1 or len(grid) == 0 or not (np.isfinite(grid) & (grid > 0)).all():
        raise ValueError(f"C must be positive and at least one, got {grid.tolist()}")
    if not np.isfinite(features).all():
        item, feature = np.argwhere(~np.isfinite(features))[0]
        raise ValueError(f"X holds nan or inf, first at item {item}, feature {feature}")
    if not (np.isnan(labels) | np.isin(labels, (0, 1))).all():
        wrong = labels[~(np.isnan(labels) | np.isin(labels, (0, 1)))]
        raise ValueError(f"Y must hold only 0, 1 and nan, got {wrong[:5].tolist()}")
    return features, labels, masks, grid

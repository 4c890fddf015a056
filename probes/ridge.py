"""Closed-form ridge on part of the rows, for many penalties and label columns at once.

A `RidgeSource` holds the features of one cell. Asked for the scores that a model trained on some
rows gives to others, it standardizes on the training rows, forms one kernel (with fewer features
than rows: one Gram matrix) and solves for every penalty and every label column together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg.lapack import dposv

from probes.features import check_numbers, check_shape

Rows = NDArray[np.int64]
Matrix = NDArray[np.float64]
Refit = Callable[[Rows], Any]
"""From training rows to features `[item, feature]` of *all* items, dense or scipy sparse."""

ALPHAS: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Penalties as multiples of the mean squared norm of a standardized training row."""


def alphas_of_folds(
    alpha: ArrayLike, n_regroupings: int, n_folds: int
) -> Float[np.ndarray, "regrouping fold"]:
    """One penalty for all folds, or one a fold; raises ValueError for another shape and what is not positive."""
    given = np.asarray(alpha, dtype=np.float64)
    shape = (n_regroupings, n_folds)
    if given.shape not in ((), shape) or not (np.isfinite(given) & (given > 0)).all():
        raise ValueError(
            f"alpha must be positive, one or [regrouping, fold] {shape}; got {np.array2string(given, threshold=9)}"
        )
    return np.broadcast_to(given, shape)


class RidgeSource:
    """The features of one cell, ready to be fitted on any subset of rows.

    Args:
        features: `[item, feature]` dense or scipy sparse, or a callable that refits them on
            training rows (fitting a vocabulary, say); it is called from several threads.
        standardize: scale every feature to unit variance on the training rows. They are centered
            on the training rows in any case, for the intercept is not penalized.
    """

    def __init__(self, features: ArrayLike | Refit, *, standardize: bool = True) -> None:
        self._standardize = standardize
        self._refit: Refit | None = None
        if callable(features):
            self._refit = features
        else:
            self._design = _Design(features)

    def scores(
        self,
        train: Rows,
        test: Rows,
        targets: Float[np.ndarray, "train column"],
        alphas: Sequence[float],
    ) -> Float[np.ndarray, "alpha test column"]:
        """Predictions for the `test` rows by one model a penalty and a column of `targets`."""
        design = self._design if self._refit is None else _Design(self._refit(train))
        return design.scores(train, test, targets, alphas, standardize=self._standardize)


class _Design:
    def __init__(self, features: Any) -> None:
        self.is_sparse = bool(sparse.issparse(features))
        if self.is_sparse:
            check_numbers(features)
            self.matrix = features.tocsr().astype(np.float64)
            self.squares = self.matrix.multiply(self.matrix).tocsr()
            return
        raw = np.asarray(features)
        check_shape(raw, len(raw))
        check_numbers(raw)
        # Centered on all rows first, so that float32 stays exact under a huge common offset; a
        # training set's own centering afterwards comes to the same as without it.
        self.matrix = (raw - raw.mean(axis=0, dtype=np.float64)).astype(np.float32)
        self.squares = self.matrix**2

    def scores(
        self,
        train: Rows,
        test: Rows,
        targets: Matrix,
        alphas: Sequence[float],
        *,
        standardize: bool,
    ) -> Matrix:
        offset = targets.mean(axis=0)
        mean, scale = self._training_statistics(train, standardize)
        if self.is_sparse:
            kernel = _sparse_kernel(self.matrix, mean, scale)
        else:
            rows = (self.matrix - mean) * scale
            if rows.shape[1] < len(train):
                Z = rows.astype(np.float64)
                fitted = _primal(Z[train], Z[test], targets - offset, alphas)
                return np.asarray(fitted + offset)
            kernel = rows @ rows.T
        square = kernel[np.ix_(train, train)].astype(np.float64)
        cross = kernel[np.ix_(test, train)].astype(np.float64)
        return np.asarray(_dual(square, cross, targets - offset, alphas) + offset)

    def _training_statistics(self, train: Rows, standardize: bool) -> tuple[Any, Any]:
        weights = np.zeros(self.matrix.shape[0], dtype=self.matrix.dtype)
        weights[train] = 1 / len(train)
        mean = weights @ self.matrix
        if not standardize:
            return mean, np.ones_like(mean)
        square = weights @ self.squares
        variance = square - mean**2
        # What float32 leaves of a feature that is constant on the training rows is no variance.
        constant = variance <= 1e-5 * square
        return mean, np.where(constant, 0, 1 / np.sqrt(np.where(constant, 1, variance)))


def _sparse_kernel(matrix: Any, mean: Matrix, scale: Matrix) -> Matrix:
    """Inner products of centered, scaled rows without ever making them dense."""
    scaled = matrix.multiply(scale).tocsr()
    shift = mean * scale
    with_shift = scaled @ shift
    product: Matrix = (scaled @ scaled.T).toarray()
    return np.asarray(product - with_shift[:, None] - with_shift[None, :] + shift @ shift)


def _primal(train: Matrix, test: Matrix, targets: Matrix, alphas: Sequence[float]) -> Matrix:
    gram = train.T @ train
    moments = train.T @ targets
    level = np.trace(gram) / len(train)
    return np.stack([test @ solved for solved in _solve_each(gram, moments, level, alphas)])


def _dual(square: Matrix, cross: Matrix, targets: Matrix, alphas: Sequence[float]) -> Matrix:
    level = np.trace(square) / len(square)
    if targets.shape[1] <= len(cross):
        return np.stack([cross @ solved for solved in _solve_each(square, targets, level, alphas)])
    hats = _solve_each(square, cross.T, level, alphas)
    return np.stack([hat.T @ targets for hat in hats])


def _solve_each(
    matrix: Matrix, right: Matrix, level: float, alphas: Sequence[float]
) -> Iterator[Matrix]:
    """Solve `(matrix + alpha * level * I) x = right` for every alpha."""
    for alpha in alphas:
        # All features constant: any positive penalty gives the constant prediction.
        shifted = matrix + np.diag(np.full(len(matrix), alpha * level if level > 0 else 1.0))
        _, solved, info = dposv(shifted.T, right, lower=1, overwrite_a=1)
        if info != 0:
            raise ValueError(f"alphas: {alpha} is too small for these features; leave it out")
        yield solved

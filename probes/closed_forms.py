"""Diff-of-means and LDA of many label columns on the same training rows, without a fit a column.

With Z the standardized training rows, T = Z'Z / n, and for one column n1 and n0 its class counts, the difference of
the class means is `delta = n / (n1 n0) Z'y`, and the within-class covariance is T minus a rank-one term:
`W = T - q delta delta'`, q = n1 n0 / n^2. One eigendecomposition of T then serves every column and every shrinkage, by
the formula of Sherman and Morrison (1950); the Ledoit-Wolf estimate (2004) of a column follows from the same pieces.
Same solutions as `DiffMeansProbe` and `LDAProbe` column by column, to rounding. Without any shrinkage and with fewer
rows than features W is singular, and what is left of a solution is the rounding of either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from probes.standardize import column_scaling

COVARIANCE_FLOOR = 1e-9
"""Added to the covariance's diagonal, as a share of its mean (at least 1): classes without any spread stay solvable."""


def diff_means_scores(
    X: NDArray[np.generic],
    train: Bool[np.ndarray, "item"],
    columns: NDArray[np.generic],
) -> Float[np.ndarray, "test column"]:
    """Decision values of the items that are not in `train`, by one `DiffMeansProbe` a column.

    Args:
        X: `[item, feature]`.
        train: True for the rows to train on.
        columns: 0/1 labels `[item, column]`; one that has a single class in `train` gets nan.
    """
    Z, test = _standardized(X, train)
    labels = _Labels.of(columns[train])
    sums = Z.T @ labels.y
    return labels.known_only(_centered_scores(test, sums * labels.unit, sums, labels))


def lda_scores(
    X: NDArray[np.generic],
    train: Bool[np.ndarray, "item"],
    columns: NDArray[np.generic],
    shrinkages: Sequence[float],
) -> Float[np.ndarray, "shrinkage test column"]:
    """Decision values of the items that are not in `train`, by one `LDAProbe` a shrinkage and column.

    Args:
        X, train, columns: as in `diff_means_scores`.
        shrinkages: from 0 to 1 each; nan for every column's own Ledoit-Wolf estimate.
    """
    Z, test = _standardized(X, train)
    labels = _Labels.of(columns[train])
    rows, test, spectrum = _in_eigenbasis(Z, test)
    sums = rows.T @ labels.y
    delta = sums * labels.unit
    q = labels.positives * labels.negatives / len(Z) ** 2
    n_features = Z.shape[1]
    level = (spectrum.sum() - q * (delta**2).sum(axis=0)) / n_features
    scores = np.empty((len(shrinkages), len(test), columns.shape[1]))
    for s, given in enumerate(shrinkages):
        if np.isnan(given):
            shrinkage = _ledoit_wolf(rows, labels, sums, delta, q, spectrum, level, n_features)
        else:
            shrinkage = np.full(len(q), given)
        ridge = shrinkage * level + COVARIANCE_FLOOR * np.maximum(level, 1.0)
        solved = delta / ((1 - shrinkage) * spectrum[:, None] + ridge)
        weights = solved / (1 - (1 - shrinkage) * q * (delta * solved).sum(axis=0))
        scores[s] = _centered_scores(test, weights, sums, labels) + labels.log_odds
    return labels.known_only(scores)


@dataclass(frozen=True)
class _Labels:
    """0/1 columns of the training rows, with their class counts."""

    y: Float[np.ndarray, "train column"]
    positives: Float[np.ndarray, "column"]
    negatives: Float[np.ndarray, "column"]

    @classmethod
    def of(cls, columns: NDArray[np.generic]) -> _Labels:
        y = columns.astype(np.float64)
        positives = y.sum(axis=0)
        return cls(y, positives, len(y) - positives)

    @property
    def known(self) -> Bool[np.ndarray, "column"]:
        return np.asarray((self.positives > 0) & (self.negatives > 0))

    @property
    def unit(self) -> Float[np.ndarray, "column"]:
        """From sums of the positive rows to the difference of class means."""
        return np.asarray(1 / np.maximum(self.positives, 1) + 1 / np.maximum(self.negatives, 1))

    @property
    def log_odds(self) -> Float[np.ndarray, "column"]:
        return np.asarray(np.log(np.maximum(self.positives, 1) / np.maximum(self.negatives, 1)))

    def known_only(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.where(self.known, scores, np.nan))


def _centered_scores(
    test: NDArray[np.float64],
    weights: NDArray[np.float64],
    sums: NDArray[np.float64],
    labels: _Labels,
) -> NDArray[np.float64]:
    """Scores that are 0 halfway between the class means, which are `sums / n1` and `-sums / n0`."""
    middle = sums * (1 / np.maximum(labels.positives, 1) - 1 / np.maximum(labels.negatives, 1)) / 2
    return np.asarray(test @ weights - (weights * middle).sum(axis=0))


def _ledoit_wolf(
    rows: NDArray[np.float64],
    labels: _Labels,
    sums: NDArray[np.float64],
    delta: NDArray[np.float64],
    q: NDArray[np.float64],
    spectrum: NDArray[np.float64],
    level: NDArray[np.float64],
    n_features: int,
) -> Float[np.ndarray, "column"]:
    """`ledoit_wolf_shrinkage` of every column's within-class residuals."""
    if n_features == 1:
        return np.zeros(len(q))
    n = len(rows)
    squares = (delta**2).sum(axis=0)
    # Of the squared length of every residual: row minus its class's mean, sums / n1 or -sums / n0.
    count = np.where(labels.y == 1, labels.positives, -labels.negatives)
    lengths = (rows**2).sum(axis=1)[:, None] - 2 * (rows @ sums) / count
    lengths += (sums**2).sum(axis=0) / count**2
    frobenius = (spectrum**2).sum() - 2 * q * (spectrum @ delta**2) + (q * squares) ** 2
    noise = ((lengths**2).sum(axis=0) / n - frobenius) / (n_features * n)
    distance = frobenius / n_features - level**2
    noise = np.minimum(noise, distance)
    return np.where(noise == 0, 0.0, noise / np.where(noise == 0, 1.0, distance))


def _standardized(
    X: NDArray[np.generic], train: Bool[np.ndarray, "item"]
) -> tuple[Float[np.ndarray, "train feature"], Float[np.ndarray, "test feature"]]:
    inside = X[train].astype(np.float64)
    mean, scale = column_scaling(inside)
    return (inside - mean) * scale, (X[~train].astype(np.float64) - mean) * scale


def _in_eigenbasis(
    Z: NDArray[np.float64], test: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Both sets of rows in the eigenbasis of `Z'Z / n`, and its eigenvalues other than 0."""
    n, n_features = Z.shape
    if n_features <= n:
        spectrum, axes = np.linalg.eigh(Z.T @ Z / n)
        return Z @ axes, test @ axes, spectrum
    spectrum, vectors = np.linalg.eigh(Z @ Z.T / n)
    # Below this an eigenvalue is rounding: that of the rows' sum, which is 0, at least.
    held = spectrum > n * np.finfo(np.float64).eps * spectrum[-1]
    spectrum, vectors = spectrum[held], vectors[:, held]
    lengths = np.sqrt(n * spectrum)
    return vectors * lengths, test @ (Z.T @ vectors) / lengths, spectrum

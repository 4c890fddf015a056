"""Directions of probes held against each other: cosines, and what cosines of meaningless directions are.

Raw cosines mean what they seem to within one space: the same layer in two tasks or two contexts. Across layers they
compare coordinates that every block may rewrite. A high cosine there says that the same reader would do at both layers;
a low one does not say that another thing is read. For that, train at one place and test at the other
(`transfer_matrix`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import solve
from scipy.stats import beta

from probes.features import dense_features
from probes.standardize import column_scaling
from probes.uncertainty import LEVEL


@dataclass(frozen=True)
class CosineMatrix:
    """Cosines of directions with each other, with two levels that meaningless ones stay under."""

    names: tuple[str, ...]
    values: Float[np.ndarray, "direction direction"]
    isotropic: float
    """95% of |cosine| of two random directions of this many dimensions."""
    null: Float[np.ndarray, "direction direction"] | None
    """95% of |cosine| of directions fitted to permuted labels; far above `isotropic` where the activations spread
    along few axes, or where two directions are fitted on the same items."""


def cosine_matrix(
    directions: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    permuted: ArrayLike | None = None,
) -> CosineMatrix:
    """Cosines between all pairs of directions.

    Args:
        directions: `[direction, feature]`, in raw activation space (`direction_`).
        names: one a direction; their numbers by default.
        permuted: `[direction, permutation, feature]`, directions of the same probes fitted to permuted labels.
            Permutation p is compared with permutation p: give directions that share items the same permuted labels.

    Raises ValueError for shapes that do not agree, and for a direction that is zero or not finite.
    """
    rows = np.asarray(directions, dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"directions must be [direction, feature], got shape {rows.shape}")
    labels = tuple(str(i) for i in range(len(rows))) if names is None else tuple(names)
    if len(labels) != len(rows):
        raise ValueError(
            f"names has {len(labels)} entries for {len(rows)} directions; give one each"
        )
    unit = _unit(rows, labels)
    null = None
    if permuted is not None:
        drawn = np.asarray(permuted, dtype=np.float64)
        if drawn.ndim != 3 or drawn.shape[::2] != rows.shape:
            raise ValueError(
                f"permuted has shape {drawn.shape}; needed is [direction, permutation, feature] "
                f"for directions of shape {rows.shape}"
            )
        drawn = _unit(drawn, labels)
        null = np.quantile(
            np.abs(np.einsum("ipf,jpf->pij", drawn, drawn, optimize=True)), LEVEL, axis=0
        )
    return CosineMatrix(
        labels, np.clip(unit @ unit.T, -1, 1), isotropic_cosine(rows.shape[1]), null
    )


def isotropic_cosine(n_features: int, level: float = LEVEL) -> float:
    """The share `level` of |cosine| between independent uniform directions lies below it.

    The squared cosine follows Beta(1/2, (d - 1)/2).
    """
    if n_features < 2:
        return 1.0
    return float(np.sqrt(beta.ppf(level, 0.5, (n_features - 1) / 2)))


def ridge_directions(
    X: ArrayLike, labels: ArrayLike, alpha: float = 1.0
) -> Float[np.ndarray, "column feature"]:
    """`RidgeProbe(alpha).fit(X, column).direction_` of many label columns in one solution.

    Args:
        X: `[item, feature]`.
        labels: 0/1 `[item, column]`.
        alpha: see `RidgeProbe`.
    """
    columns = np.asarray(labels)
    if columns.ndim != 2 or not np.isin(columns, (0, 1)).all():
        raise ValueError(f"labels must be 0 and 1, [item, column], got shape {columns.shape}")
    if not alpha > 0:
        raise ValueError(f"alpha must be positive, got {alpha!r}")
    rows = dense_features(X, len(columns), "X").astype(np.float64)
    targets = 2.0 * columns - 1
    mean, scale = column_scaling(rows)
    Z = (rows - mean) * scale
    n, d = Z.shape
    penalty = alpha * max(float((Z**2).sum()) / n, 1e-12)
    targets = targets - targets.mean(axis=0)
    if d <= n:
        weights = solve(Z.T @ Z + penalty * np.eye(d), Z.T @ targets, assume_a="pos")
    else:
        weights = Z.T @ solve(Z @ Z.T + penalty * np.eye(n), targets, assume_a="pos")
    return np.asarray((weights * scale[:, None]).T)


def _unit(
    vectors: Float[np.ndarray, "direction ..."], names: Sequence[str]
) -> Float[np.ndarray, "direction ..."]:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    wrong = ~np.isfinite(length) | (length == 0)
    if wrong.any():
        first = int(np.argwhere(wrong)[0][0])
        raise ValueError(f"direction {names[first]!r} is zero or not finite; leave it out")
    return np.asarray(vectors / length)

"""Standardized rows of several training sets, each rotated into the eigenbasis of its own Gram matrix.

In that basis the Hessian of a penalized linear model is nearly diagonal: `penalty + h * eigenvalues`, exactly so
where all rows have the same curvature h. That makes it the preconditioner of an iterative solver. With fewer rows than
features the kernel is decomposed instead, and the basis has one axis a row: the solution lies in the rows' span.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

CONSTANT = 1e-12
"""A feature whose deviation is no larger than this share of its mean is constant up to rounding, and is left out."""


@dataclass(frozen=True)
class Eigenbasis:
    """One training set's view of all items.

    `rows @ weights` are decision values of all items for weights `[1 + rank]`, the first of them the intercept.
    """

    rows: Float[Tensor, "item 1+rank"]
    """A one for the intercept, and the standardized features in the eigenbasis; float32."""
    eigenvalues: Float[Tensor, "1+rank"]
    """Squared lengths of the columns of `rows` over the training rows."""
    axes: Float[Tensor, "feature rank"]
    mean: Float[Tensor, "feature"]
    scale: Float[Tensor, "feature"]

    def to_raw(
        self, weights: Float[Tensor, "column 1+rank"]
    ) -> tuple[Float[Tensor, "column feature"], Float[Tensor, "column"]]:
        """Directions and intercepts on raw features: `X @ direction + intercept` are the decision values."""
        directions = (weights[:, 1:] @ self.axes.T) * self.scale
        return directions, weights[:, 0] - directions @ self.mean


def eigenbasis(X: Float[Tensor, "item feature"], train: Int[Tensor, "train"]) -> Eigenbasis:
    """Standardize on the training rows, given by number, and rotate all rows; `X` is float64."""
    n_train = len(train)
    mean = X[train].mean(0)
    deviation = X[train].std(0, correction=0)
    constant = deviation <= CONSTANT * mean.abs()
    scale = torch.where(constant, 0.0, 1 / torch.where(constant, 1.0, deviation))
    Z = (X - mean) * scale
    inside = Z[train]
    if X.shape[1] <= n_train:
        squares, axes = torch.linalg.eigh(inside.T @ inside)
        squares = squares.clamp(min=0)
    else:
        squares, directions = torch.linalg.eigh(inside @ inside.T)
        # Below this an eigenvalue is rounding, and its axis would not be orthogonal to the others.
        held = squares > n_train * torch.finfo(X.dtype).eps * squares[-1]
        squares = squares[held]
        axes = inside.T @ (directions[:, held] / squares.sqrt())
    rotated = Z.float() @ axes.float()
    return Eigenbasis(
        rows=torch.cat([torch.ones_like(rotated[:, :1]), rotated], 1),
        eigenvalues=torch.cat([squares.new_tensor([float(n_train)]), squares]),
        axes=axes,
        mean=mean,
        scale=scale,
    )

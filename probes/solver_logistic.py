"""Many L2-logistic regressions at once by preconditioned nonlinear conjugate gradients.

Every column minimizes `C * sum(log loss) + |w|^2 / 2`, intercept unpenalized, in the eigenbasis of its training rows.
All columns move together, so that a step is two batched matrix products. Direction: Hestenes and Stiefel (1952), a
negative beta set to 0, preconditioned by the diagonal of the Hessian that the column's mean curvature gives. Step
length: Newton's method along the direction, which needs no product because decision values are linear in the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from probes.solver_eigenbasis import Eigenbasis

STEP_SLOPE = 0.1
"""A step is long enough when it leaves at most this share of the slope along its direction."""
MAX_STEP_UPDATES = 12
RETIRED_SHARE = 0.1
"""Finished columns are taken out once they are this share: to gather the others costs a pass."""
INTERCEPT_ERROR = 1e-6
"""Absolute error (log-odds) at which a column is finished whose weights are nothing beside it."""


@dataclass(frozen=True)
class LogisticBatch:
    """Problems (training sets with their label columns) side by side in float32.

    They are padded with zeros to one number of rows, weights and columns: a padded row or weight changes nothing, a
    padded column has labels of 1/2 and is solved by zero weights.
    """

    rows: Float[Tensor, "problem row weight"]
    """In the eigenbasis; the first weight is the intercept's, its rows are 1, or 0 for padding."""
    labels: Float[Tensor, "problem column row"]
    eigenvalues: Float[Tensor, "problem 1 weight"]
    n_rows: Float[Tensor, "problem 1"]

    @staticmethod
    def of(
        bases: Sequence[Eigenbasis],
        rows: Sequence[Int[Tensor, "train"]],
        labels: Sequence[Float[Tensor, "column train"]],
    ) -> LogisticBatch:
        """One problem a basis, training rows and 0/1 labels of these; every column needs both classes."""
        n_rows = max(len(one) for one in rows)
        n_columns = max(len(one) for one in labels)
        n_weights = max(len(one.eigenvalues) for one in bases)
        new = torch.empty(0, dtype=torch.float32, device=labels[0].device)
        batch = LogisticBatch(
            rows=new.new_zeros(len(bases), n_rows, n_weights),
            labels=new.new_full((len(bases), n_columns, n_rows), 0.5),
            eigenvalues=new.new_zeros(len(bases), 1, n_weights),
            n_rows=new.new_tensor([[float(len(one))] for one in rows]),
        )
        for f, (basis, train, y) in enumerate(zip(bases, rows, labels, strict=True)):
            rank = len(basis.eigenvalues)
            batch.rows[f, : len(train), :rank] = basis.rows[train]
            batch.labels[f, : len(y), : len(train)] = y
            batch.eigenvalues[f, 0, :rank] = basis.eigenvalues
        return batch

    @property
    def base_rate(self) -> Float[Tensor, "problem column"]:
        """Share of positive labels."""
        return (self.labels @ self.rows[..., :1])[..., 0] / self.n_rows


@dataclass(frozen=True)
class LogisticFits:
    """Solutions for one C; a column that did not converge keeps its last weights."""

    C: float
    weights: Float[Tensor, "problem column weight"]
    converged: Bool[Tensor, "problem column"]
    n_iter: Int[Tensor, "problem column"]


def base_rate_fits(batch: LogisticBatch) -> LogisticFits:
    """The limit of no C at all: zero weights, and the intercept that gives the base rate."""
    weights = batch.rows.new_zeros(*batch.labels.shape[:2], batch.rows.shape[2])
    weights[..., 0] = torch.logit(batch.base_rate)
    done = torch.ones(weights.shape[:2], dtype=torch.bool, device=weights.device)
    return LogisticFits(0.0, weights, done, torch.zeros_like(done, dtype=torch.int64))


def solve(
    batch: LogisticBatch, C: float, before: LogisticFits, *, tol: float, max_iter: int
) -> LogisticFits:
    """Solve every column for one C, from the solutions `before` for a smaller one.

    A column is finished when its Newton step, in the metric of the preconditioner, is at most `tol` of its weights.
    """
    found = _moved_along_the_path(batch, before, C)
    n_iter = torch.full(found.shape[:2], max_iter, device=found.device)
    converged = torch.zeros_like(n_iter, dtype=torch.bool)
    penalty = torch.ones_like(found[0, 0])
    penalty[0] = 0
    padding = 0.25 * (batch.rows.shape[1] - batch.n_rows)
    rows = batch.rows

    # What moves, finished columns taken out; `column` says where it belongs.
    column = torch.arange(found.shape[1], device=found.device).expand(len(found), -1)
    labels, weights = batch.labels, found.clone()
    finished = torch.zeros_like(converged)
    direction = torch.zeros_like(weights)
    last_gradient = torch.zeros_like(weights)
    values = weights @ rows.mT
    p = torch.sigmoid(values)
    for iteration in range(max_iter + 1):
        curvature = p - p * p
        total = curvature.sum(-1) - padding
        gradient = C * ((p - labels) @ rows) + penalty * weights
        hessian = penalty + (C * total / batch.n_rows)[..., None] * batch.eigenvalues
        newton = gradient / hessian.clamp(min=torch.finfo(hessian.dtype).tiny)
        size = _dot(penalty * hessian * weights, weights)
        done = _dot(gradient, newton) <= tol**2 * size + INTERCEPT_ERROR**2 * C * total
        n_iter.scatter_(
            1, column, torch.where(done & ~finished, iteration, n_iter.gather(1, column))
        )
        finished = finished | done
        converged.scatter_(1, column, finished)
        moving = int((~finished).sum(1).max())
        if moving == 0 or iteration == max_iter:
            break
        if moving <= (1 - RETIRED_SHARE) * finished.shape[1]:
            found.scatter_(1, _along(column, weights), weights)
            order = torch.argsort(finished.int(), dim=1, stable=True)[:, :moving]
            column, finished = column.gather(1, order), finished.gather(1, order)
            labels, values, curvature = (_take(x, order) for x in (labels, values, curvature))
            weights, gradient, newton = (_take(x, order) for x in (weights, gradient, newton))
            direction, last_gradient = (_take(x, order) for x in (direction, last_gradient))
        direction, slope = _downhill(gradient, newton, last_gradient, direction)
        slope.masked_fill_(finished, 0)
        direction.masked_fill_(finished[..., None], 0)
        penalized = penalty * direction
        line = _Line(
            values,
            direction @ rows.mT,
            labels,
            C,
            _dot(penalized, weights),
            _dot(penalized, direction),
        )
        step, p = line.search(slope, curvature)
        weights = torch.addcmul(weights, step[..., None], direction)
        values = torch.addcmul(values, step[..., None], line.moves)
        last_gradient = gradient
    found.scatter_(1, _along(column, weights), weights)
    return LogisticFits(C, found, converged, n_iter)


def _downhill(
    gradient: Float[Tensor, "problem column weight"],
    newton: Float[Tensor, "problem column weight"],
    last_gradient: Float[Tensor, "problem column weight"],
    last_direction: Float[Tensor, "problem column weight"],
) -> tuple[Float[Tensor, "problem column weight"], Float[Tensor, "problem column"]]:
    """The next direction, conjugate to the last, and the slope along it; never uphill."""
    change = gradient - last_gradient
    # 0/0 where nothing has moved: the first step.
    beta = torch.nan_to_num(_dot(newton, change) / _dot(last_direction, change), 0.0, 0.0, 0.0)
    direction = torch.addcmul(-newton, beta.clamp(min=0)[..., None], last_direction)
    slope = _dot(gradient, direction)
    uphill = slope >= 0
    slope = torch.where(uphill, -_dot(gradient, newton), slope)
    return torch.where(uphill[..., None], -newton, direction), slope


@dataclass(frozen=True)
class _Line:
    """The objective along one direction a column, as a function of the step."""

    values: Float[Tensor, "problem column row"]
    moves: Float[Tensor, "problem column row"]
    labels: Float[Tensor, "problem column row"]
    C: float
    penalty_slope: Float[Tensor, "problem column"]
    penalty_curvature: Float[Tensor, "problem column"]

    def search(
        self, slope: Float[Tensor, "problem column"], curvature: Float[Tensor, "problem column row"]
    ) -> tuple[Float[Tensor, "problem column"], Float[Tensor, "problem column row"]]:
        """The step of every column, and the probabilities there.

        Newton's method from a step of 0, where `slope` and `curvature` are known. The slope grows with the step, so
        that the root stays bracketed; a Newton step that leaves the bracket is replaced by its middle.
        """
        shape = self.values.shape
        step = -slope / self._bend(self.moves, curvature, self.penalty_curvature)
        p = torch.sigmoid(torch.addcmul(self.values, self.moves, step[..., None]))
        slope_there = self.C * _dot(self.moves, p - self.labels)
        slope_there += self.penalty_slope + step * self.penalty_curvature

        flat = [x.reshape(-1, shape[-1]) for x in (self.values, self.moves, self.labels)]
        penalty_slope, penalty_curvature = (
            self.penalty_slope.ravel(),
            self.penalty_curvature.ravel(),
        )
        step, p, slope_there = step.ravel(), p.view(-1, shape[-1]), slope_there.ravel()
        enough = STEP_SLOPE * slope.abs().ravel()
        low = torch.zeros_like(step)
        high = torch.full_like(step, torch.inf)
        for _ in range(MAX_STEP_UPDATES):
            open_ = torch.nonzero(slope_there.abs() > enough)[:, 0]
            if len(open_) == 0:
                break
            values, moves, labels = (x[open_] for x in flat)
            t, there, q = step[open_], slope_there[open_], p[open_]
            low[open_] = torch.where(there < 0, t, low[open_])
            high[open_] = torch.where(there < 0, high[open_], t)
            t = t - there / self._bend(moves, q - q * q, penalty_curvature[open_])
            inside = (t > low[open_]) & (t < high[open_])
            middle = torch.where(
                high[open_].isinf(), 4 * low[open_], (low[open_] + high[open_]) / 2
            )
            t = torch.where(inside, t, middle)
            q = torch.sigmoid(torch.addcmul(values, moves, t[:, None]))
            there = self.C * _dot(moves, q - labels)
            step[open_], p[open_] = t, q
            slope_there[open_] = there + penalty_slope[open_] + t * penalty_curvature[open_]
        return step.view(shape[:-1]), p.view(shape)

    def _bend(self, moves: Tensor, curvature: Tensor, penalty_curvature: Tensor) -> Tensor:
        bend = self.C * _dot(moves * moves, curvature) + penalty_curvature
        return bend.clamp(min=torch.finfo(bend.dtype).tiny)


def _moved_along_the_path(
    batch: LogisticBatch, before: LogisticFits, C: float
) -> Float[Tensor, "problem column weight"]:
    """The weights `before`, scaled as those of ridge regression would be.

    Along an axis of eigenvalue e, with curvature h, ridge weights are proportional to C / (1 + C h e).
    """
    if before.C == 0:
        return before.weights.clone()
    h = batch.base_rate * (1 - batch.base_rate)
    stiffness = h[..., None] * batch.eigenvalues
    growth = (C / before.C) * (1 + before.C * stiffness) / (1 + C * stiffness)
    growth[..., 0] = 1
    return before.weights * growth


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def _along(order: Int[Tensor, "problem column"], x: Float[Tensor, "problem _ entry"]) -> Tensor:
    return order[..., None].expand(-1, -1, x.shape[-1])


def _take(x: Float[Tensor, "problem _ entry"], order: Int[Tensor, "problem column"]) -> Tensor:
    return x.gather(1, _along(order, x))

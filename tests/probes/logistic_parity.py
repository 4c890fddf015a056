"""Random cells on which the batched solver is held against scikit-learn's converged solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from probes import same_fold_auroc
from probes.batched_logistic import fit_logistic_columns

KINDS = ("plain", "separable", "collinear", "huge dimension", "unbalanced")
N_FOLDS = 3


@dataclass(frozen=True)
class Cell:
    kind: str
    X: np.ndarray
    y: np.ndarray
    C: float
    folds: np.ndarray


@dataclass(frozen=True)
class Parity:
    """The worst over the folds of one cell."""

    objective: float
    """Relative difference of the objectives."""
    decision: float
    """Largest difference of decision values, over their standard deviation."""
    auroc: float
    """Difference of the out-of-fold AUROC, less what one pair is worth where that is more than 0.001."""
    converged: bool

    @property
    def holds(self):
        return (
            self.converged
            and self.objective <= 1e-6
            and self.decision <= 1e-3
            and self.auroc <= 1e-3
        )


def log_uniform(rng, low, high):
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def random_cell(seed):
    """100-2,000 rows, 32-1,024 features with a power-law spectrum, C from 1e-4 to 10."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n, d = int(log_uniform(rng, 100, 2000)), int(log_uniform(rng, 32, 1024))
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -rng.uniform(0, 1)
    X = X @ rng.normal(size=(d, d)) / np.sqrt(d)
    score = (X - X.mean(axis=0)) @ rng.normal(size=d)
    if kind != "separable":
        score += score.std() * rng.uniform(0.5, 3) * rng.normal(size=n)
    y = score > np.quantile(score, 0.95 if kind == "unbalanced" else rng.uniform(0.3, 0.7))
    if kind == "collinear":
        half = d // 2
        X[:, half : 2 * half] = 2 * X[:, :half] + 1e-4 * rng.normal(size=(n, half))
        X[:, 0] = 5
    if kind == "huge dimension":
        X[:, 3] = 300 * X[:, 3] + 3000
    folds = np.empty(n, dtype=int)
    splitter = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    for fold, (_, test) in enumerate(splitter.split(X, y)):
        folds[test] = fold
    return Cell(kind, X.astype("f"), y.astype(int), log_uniform(rng, 1e-4, 10), folds)


def reference(X, y, train, C):
    """scikit-learn's objective and decision values of all rows, from a fit to convergence."""
    X = X.astype(float)
    Z = StandardScaler().fit(X[train]).transform(X)
    solver = "newton-cholesky" if Z.shape[1] < train.sum() else "lbfgs"
    model = LogisticRegression(C=C, tol=1e-9, max_iter=20_000, solver=solver)
    decision = model.fit(Z[train], y[train]).decision_function(Z)
    losses = np.logaddexp(0, -(2 * y[train] - 1) * decision[train])
    return C * losses.sum() + 0.5 * (model.coef_**2).sum(), decision


def parity(cell):
    masks = np.array([cell.folds != fold for fold in range(N_FOLDS)])
    ours = fit_logistic_columns(cell.X, cell.y[:, None], masks, [cell.C])
    expected = [reference(cell.X, cell.y, mask, cell.C) for mask in masks]
    out_of_fold = np.choose(cell.folds, [decision for _, decision in expected])
    pairs = sum((cell.y[~mask] == 1).sum() * (cell.y[~mask] == 0).sum() for mask in masks)
    aurocs = [
        same_fold_auroc(cell.y, s, cell.folds) for s in (ours.out_of_fold()[0, 0], out_of_fold)
    ]
    return Parity(
        objective=max(
            abs(found / best - 1)
            for found, (best, _) in zip(ours.objective[0, :, 0], expected, strict=True)
        ),
        decision=max(
            np.abs(found - best).max() / best.std()
            for found, (_, best) in zip(ours.decision[0, :, 0], expected, strict=True)
        ),
        auroc=abs(aurocs[0] - aurocs[1]) - max(0, 1 / pairs - 1e-3),
        converged=bool(ours.converged.all()),
    )

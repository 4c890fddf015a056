"""Transfer: a probe trained in one domain (a task, a stratum, a context), tested in every other.

All entries are cross-fitted on the same folds of groups, shared by all domains: the training items of one domain
outside a fold, the test items of another inside it. So an item that two domains share, or a relative of it, is never on
both sides, and the entries of a column are scored on the same items, folds and pairs: they may be compared with each
other and with the diagonal.

The AUROC of an entry does not change when all scores of a fold move alike, so that one number serves raw and
mean-shifted. What a shift between the domains does cost is the threshold: balanced accuracy at the probe's own cut is
shown raw, and with the target's mean moved onto that of the training items. No label of the target is used for that,
but it takes for granted that the outcome is as frequent there as in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve
from sklearn.metrics import balanced_accuracy_score

from probes.features import FoldFeatures, dense_features
from probes.ridge import alphas_of_folds
from probes.splits import (
    binary_labels,
    check_groups,
    group_codes,
    groups_of,
    seeds_of_regroupings,
    skip_reason,
    stratified_folds,
)
from probes.standardize import column_scaling
from probes.uncertainty import Interval, auroc_interval

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Domain:
    """Items under one condition."""

    name: str
    X: ArrayLike | FoldFeatures
    """`[item, feature]`, the same features in all domains, or for every fold those of the cell chosen without it."""
    y: ArrayLike
    groups: ArrayLike
    """A group of the same name in two domains is the same group."""


@dataclass(frozen=True)
class TransferEntry:
    """One domain's probe on another's items."""

    trained_on: str
    tested_on: str
    auroc: Interval
    """Same-fold; estimand "procedure"."""
    balanced_accuracy: float
    """At the threshold found in training."""
    shifted_accuracy: float
    """At the same threshold, the target's mean moved onto that of the training items."""


@dataclass(frozen=True)
class TransferMatrix:
    """Every domain's probe on every domain."""

    names: tuple[str, ...]
    entries: tuple[tuple[TransferEntry, ...], ...]
    """`[trained on][tested on]`."""

    @property
    def auroc(self) -> Float[np.ndarray, "source target"]:
        """Estimates of all entries; the diagonal is out of fold like the rest."""
        return np.array([[entry.auroc.estimate for entry in row] for row in self.entries])


def transfer_matrix(
    domains: Sequence[Domain],
    *,
    alpha: ArrayLike = 1.0,
    folds: Sequence[ArrayLike] | None = None,
    n_folds: int = 5,
    n_regroupings: int = 5,
    seed: int = 0,
) -> TransferMatrix:
    """Train a ridge probe in every domain and test it in all.

    Args:
        domains: at least 2, of different names.
        alpha: penalty (see `RidgeProbe`), one or `[regrouping, fold]`.
        folds: of every domain, `[regrouping, item]`, in place of own ones (`shared_folds`); a group must lie in the
            same fold of all domains.
        seed: of own folds.

    Intervals are those of a procedure, with what training adds bounded and not measured: with a strong signal up to a
    third too wide, and wider than need be between domains that share no group, whose items are never in both roles.

    Raises ValueError for a domain whose labels cannot be scored (`domain_reason`), a group in different folds, domains
    of different features, and nan or inf.
    """
    names = tuple(domain.name for domain in domains)
    if len(domains) < 2 or len(set(names)) < len(names):
        raise ValueError(f"domains: needed are at least 2 of different names, got {list(names)}")
    for domain in domains:
        try:
            groups_of(binary_labels(domain.y), domain.groups)
        except ValueError as error:
            raise ValueError(f"domain {domain.name!r}: {error}") from error
    labels = [binary_labels(domain.y) for domain in domains]
    groups = [np.asarray(domain.groups) for domain in domains]
    if folds is None:
        rows = shared_folds(labels, groups, n_folds, n_regroupings, seed)
    else:
        rows = [np.atleast_2d(np.asarray(one)) for one in folds]
        if len(rows) != len(domains):
            raise ValueError(f"folds: {len(rows)} given for {len(domains)} domains; give one each")
    _check_folds(rows, groups)
    for domain, fold_rows in zip(domains, rows, strict=True):
        reason = domain_reason(domain.y, domain.groups, fold_rows)
        if reason is not None:
            raise ValueError(f"domain {domain.name!r}: {reason}; leave it out")
    n_regroupings, last = len(rows[0]), max(int(one.max()) for one in rows)
    alphas = alphas_of_folds(alpha, n_regroupings, last + 1)
    shape = (len(domains), len(domains))
    scored = np.empty(shape, dtype=object)
    for s, t in np.ndindex(shape):
        scored[s, t] = np.zeros((3, *rows[t].shape))
    for r, fold in np.ndindex(n_regroupings, last + 1):
        features = [
            _features(domain, len(y), r, fold) for domain, y in zip(domains, labels, strict=True)
        ]
        _check_widths(names, features)
        for s in range(len(domains)):
            train = rows[s][r] != fold
            cut = _Cut.fit(
                features[s][train], labels[s][train], groups[s][train], float(alphas[r, fold])
            )
            for t in range(len(domains)):
                test = rows[t][r] == fold
                scores = features[t][test] @ cut.direction
                shift = features[t].mean(axis=0) @ cut.direction - cut.training_mean
                scored[s, t][:, r, test] = scores, scores > cut.at, scores - shift > cut.at
    return TransferMatrix(
        names,
        tuple(
            tuple(
                _entry(names[s], domain, scored[s, t], rows[t]) for t, domain in enumerate(domains)
            )
            for s in range(len(domains))
        ),
    )


def shared_folds(
    labels: Sequence[ArrayLike],
    groups: Sequence[ArrayLike],
    n_folds: int = 5,
    n_regroupings: int = 5,
    seed: int = 0,
) -> list[Int[np.ndarray, "regrouping item"]]:
    """Folds of every domain, in which a group lies in the same fold everywhere; balanced in each domain's outcome."""
    strata = np.concatenate([2 * d + binary_labels(y) for d, y in enumerate(labels)])
    codes = group_codes(np.concatenate([np.asarray(one) for one in groups]))
    if (n_groups := int(codes.max()) + 1) < n_folds:
        raise ValueError(f"cannot make folds: only {n_groups} groups for {n_folds} folds")
    ends = np.cumsum([len(np.asarray(y)) for y in labels])[:-1]
    seeds = seeds_of_regroupings(n_regroupings, seed)
    rows = np.stack([stratified_folds(strata, codes, n_folds, one) for one in seeds])
    return np.split(rows, ends, axis=1)


def domain_reason(y: ArrayLike, groups: ArrayLike, folds: ArrayLike) -> str | None:
    """Why a domain can neither train nor test a probe on these folds `[regrouping, item]`, or None if it can."""
    labels = binary_labels(y)
    reason = skip_reason(labels, groups, 2)
    if reason is not None:
        return reason
    for fold_of in np.atleast_2d(np.asarray(folds)):
        members = [set(np.unique(fold_of[labels == label]).tolist()) for label in (0, 1)]
        if min(map(len, members)) < 2:
            return "all items of one class lie in one fold"
        if not members[0] & members[1]:
            return "no fold holds both classes"
        for fold in np.unique(fold_of):
            if len(np.unique(np.asarray(groups)[fold_of != fold])) < 2:
                return f"only one group outside fold {fold}"
    return None


@dataclass(frozen=True)
class _Cut:
    """A ridge direction in raw space, and the score at which it says 1."""

    direction: Float[np.ndarray, "feature"]
    at: float
    training_mean: float

    @classmethod
    def fit(cls, X: Matrix, y: NDArray[np.int64], groups: NDArray[Any], alpha: float) -> _Cut:
        """Halfway between the classes' mean scores, each item scored without its group.

        The intercept of a ridge is no cut: with unequal classes it says the larger one of every item. Nor are means of
        the scores of the fitted items themselves: the rarer class is overfitted more.
        """
        mean, scale = column_scaling(X)
        Z = (X - mean) * scale
        targets = 2.0 * y - 1
        kernel = Z @ Z.T
        penalty = alpha * max(float(np.trace(kernel)) / len(y), 1e-12)
        smoother = solve(kernel + penalty * np.eye(len(y)), kernel, assume_a="pos").T
        centered = targets - targets.mean()
        weights = (centered - smoother @ centered) / penalty
        direction = (Z.T @ weights) * scale
        hat = smoother + 1 / len(y)
        residual = targets - hat @ targets
        held_out = np.empty(len(y))
        for group in np.unique(groups):
            own = groups == group
            leverage = np.eye(own.sum()) - hat[np.ix_(own, own)]
            held_out[own] = targets[own] - np.linalg.solve(leverage, residual[own])
        middle = (held_out[y == 1].mean() + held_out[y == 0].mean()) / 2
        training_mean = float(mean @ direction)
        return cls(direction, float(middle - targets.mean() + training_mean), training_mean)


def _entry(
    source: str, target: Domain, scored: Float[np.ndarray, "3 regrouping item"], folds: NDArray[Any]
) -> TransferEntry:
    scores, raw, shifted = scored
    accuracies = [
        float(np.mean([balanced_accuracy_score(target.y, said) for said in answers]))
        for answers in (raw, shifted)
    ]
    auroc = auroc_interval(target.y, scores, folds, target.groups, estimand="procedure")
    return TransferEntry(source, target.name, auroc, *accuracies)


def _features(domain: Domain, n_items: int, regrouping: int, fold: int) -> Matrix:
    given = domain.X(regrouping, fold) if callable(domain.X) else domain.X
    return dense_features(given, n_items, f"domain {domain.name!r}: X").astype(np.float64)


def _check_folds(rows: Sequence[NDArray[Any]], groups: Sequence[NDArray[Any]]) -> None:
    for fold_rows, names in zip(rows, groups, strict=True):
        if fold_rows.shape != (len(rows[0]), len(names)):
            raise ValueError(
                f"folds has shape {fold_rows.shape}; needed is [regrouping, item] for every domain, "
                f"here {(len(rows[0]), len(names))}"
            )
    for fold_of in np.concatenate(rows, axis=1):
        check_groups(fold_of, np.concatenate(groups))


def _check_widths(names: Sequence[str], features: Sequence[Matrix]) -> None:
    for name, matrix in zip(names, features, strict=True):
        if matrix.shape[1] != features[0].shape[1]:
            raise ValueError(
                f"domain {name!r} has {matrix.shape[1]} features and {names[0]!r} "
                f"{features[0].shape[1]}; read the same site in both"
            )

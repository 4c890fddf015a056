"""The label columns of a sweep: every target on its labeled items, with its folds and permuted labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray

from probes.permutation import whole_group_permutations
from probes.splits import binary_labels, check_groups, grouped_folds, skip_reason


@dataclass(frozen=True)
class Target:
    """One target; `folds` and `columns` are empty where `skipped` says why it cannot be scored."""

    name: str
    rows: Int[np.ndarray, "labeled"]
    """Numbers of the items that have a label."""
    labels: Int[np.ndarray, "labeled"]
    groups: NDArray[np.generic]
    folds: Int[np.ndarray, "labeled"]
    columns: Int[np.ndarray, "labeled 1+permutation"]
    """The labels, and after them the permuted ones."""
    skipped: str | None

    @property
    def n_groups(self) -> int:
        """Groups among the labeled items."""
        return len(np.unique(self.groups))


def named_labels(y: ArrayLike | Mapping[str, ArrayLike]) -> dict[str, Float[np.ndarray, "item"]]:
    """Labels by the name of their target; a single array is the target "y".

    Raises ValueError for no target at all and for labels that are no numbers.
    """
    given = dict(y) if isinstance(y, Mapping) else {"y": y}
    if not given:
        raise ValueError("y names no target; give at least one")
    labels = {}
    for name, values in given.items():
        try:
            labels[name] = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"y: target {name!r} holds labels that are no numbers; give 0, 1 and nan"
            ) from None
    return labels


def make_target(
    name: str,
    labels: Float[np.ndarray, "item"],
    groups: NDArray[np.generic],
    folds: Int[np.ndarray, "item"] | None,
    *,
    n_folds: int,
    n_permutations: int,
    seed: int,
) -> Target:
    """A target on its labeled items; without `folds`, `grouped_folds` of these items.

    Raises ValueError for another number of labels than of groups, labels other than 0, 1 and nan, and a group in
    two folds.
    """
    if labels.shape != groups.shape:
        raise ValueError(
            f"y: target {name!r} has labels of shape {labels.shape} and groups has {groups.shape}; "
            "give one of each an item"
        )
    rows = np.flatnonzero(~np.isnan(labels))
    try:
        known = binary_labels(labels[rows])
    except ValueError as error:
        raise ValueError(f"target {name!r}: {error}") from error
    own_groups = groups[rows]
    nothing = np.zeros((len(rows), 0), dtype=np.int64)
    if folds is not None:
        n_folds = len(np.unique(folds[rows]))
    reason = _too_few_to_score(known, own_groups, n_folds)
    if reason is None:
        own = grouped_folds(known, own_groups, n_folds, seed) if folds is None else folds[rows]
        check_groups(own, own_groups)
        reason = _one_class(known, own)
    if reason is not None:
        return Target(name, rows, known, own_groups, nothing[:, :0].ravel(), nothing, reason)
    permuted = nothing
    if n_permutations:
        permuted = whole_group_permutations(known, own_groups, n_permutations, seed)
    return Target(name, rows, known, own_groups, own, np.column_stack([known, permuted]), None)


def sharing_rows(targets: Sequence[Target]) -> list[list[Target]]:
    """The targets that are scored, those of the same items and folds together: they share a decomposition a fold."""

    def key(target: Target) -> tuple[bytes, bytes]:
        return target.rows.tobytes(), target.folds.tobytes()

    scored = sorted((target for target in targets if target.skipped is None), key=key)
    return [list(members) for _, members in groupby(scored, key)]


def _too_few_to_score(
    labels: NDArray[np.int64], groups: NDArray[np.generic], n_folds: int
) -> str | None:
    if len(labels) == 0:
        return "no labeled items"
    if n_folds < 2:
        return f"only {n_folds} fold"
    return skip_reason(labels, groups, n_folds)


def _one_class(labels: NDArray[np.int64], folds: NDArray[np.int64]) -> str | None:
    """Why a fold cannot be trained without, or none of them be scored."""
    names = np.unique(folds)
    for fold in names:
        if len(np.unique(labels[folds != fold])) < 2:
            return f"one class only outside fold {fold}"
    if not any(len(np.unique(labels[folds == fold])) == 2 for fold in names):
        return "no fold holds both classes"
    return None

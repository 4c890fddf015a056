"""The label columns of a sweep: every target on its labeled items, with its folds and permuted labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray

from probes.permutation import handed_on
from probes.splits import (
    binary_labels,
    check_groups,
    grouped_folds,
    grouped_folds_of_values,
    skip_reason,
)
from probes.sweep_result import Outcome


@dataclass(frozen=True)
class Target:
    """One target; `folds` and `columns` are empty where `skipped` says why it cannot be scored."""

    name: str
    rows: Int[np.ndarray, "labeled"]
    """Numbers of the items that have a label."""
    labels: Float[np.ndarray, "labeled"] | Int[np.ndarray, "labeled"]
    """Integers where the outcome is binary."""
    groups: NDArray[np.generic]
    folds: Int[np.ndarray, "labeled"]
    columns: Float[np.ndarray, "labeled 1+permutation"] | Int[np.ndarray, "labeled 1+permutation"]
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
            item, value = next(
                (i, one) for i, one in enumerate(np.asarray(values).ravel()) if not _is_number(one)
            )
            raise ValueError(
                f"y: target {name!r} holds labels that are no numbers, first {str(value)!r:.40} at item {item}; "
                "give 0 and 1, or a rate or count with outcome='continuous', and nan where there is none"
            ) from None
    return labels


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def make_target(
    name: str,
    labels: Float[np.ndarray, "item"],
    groups: NDArray[np.generic],
    folds: Int[np.ndarray, "item"] | None,
    *,
    outcome: Outcome,
    n_folds: int,
    n_permutations: int,
    seed: int,
) -> Target:
    """A target on its labeled items; without `folds`, `grouped_folds` (of values) of these items.

    Raises ValueError for another number of labels than of groups, labels other than the outcome's and nan, and a group
    in two folds.
    """
    if labels.shape != groups.shape:
        raise ValueError(
            f"y: target {name!r} has labels of shape {labels.shape} and groups has {groups.shape}; "
            "give one of each an item"
        )
    rows = np.flatnonzero(~np.isnan(labels))
    known, own_groups = labels[rows], groups[rows]
    if outcome == "binary":
        try:
            known = binary_labels(known)
        except ValueError as error:
            raise ValueError(
                f"target {name!r}: {error}, or give outcome='continuous' for a rate or count"
            ) from error
    elif np.isinf(known).any():
        item = rows[np.isinf(known).argmax()]
        raise ValueError(f"y: target {name!r} is inf at item {item}; give a number or nan")
    if folds is not None:
        n_folds = len(np.unique(folds[rows]))
    too_few = _too_few_to_score if outcome == "binary" else _too_few_to_predict
    reason = too_few(known, own_groups, n_folds)
    if reason is None:
        make_folds = grouped_folds if outcome == "binary" else grouped_folds_of_values
        own = make_folds(known, own_groups, n_folds, seed) if folds is None else folds[rows]
        check_groups(own, own_groups)
        reason = _one_class(known, own) if outcome == "binary" else _one_value(known, own)
    if reason is not None:
        nothing = np.zeros((len(rows), 0), dtype=known.dtype)
        none = np.zeros(0, dtype=np.int64)
        return Target(name, rows, known, own_groups, none, nothing, reason)
    permuted = handed_on(known, own_groups, n_permutations, seed)
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


def _too_few_to_predict(
    values: NDArray[np.float64], groups: NDArray[np.generic], n_folds: int
) -> str | None:
    n_groups = len(np.unique(groups))
    if len(values) == 0:
        return "no labeled items"
    if n_folds < 2:
        return f"only {n_folds} fold"
    if values.min() == values.max():
        return f"the same value for all {len(values)} items"
    return f"only {n_groups} groups for {n_folds} folds" if n_groups < n_folds else None


def _one_value(values: NDArray[np.float64], folds: NDArray[np.int64]) -> str | None:
    """Why no fold can be scored."""
    if all(np.ptp(values[folds == fold]) == 0 for fold in np.unique(folds)):
        return "one value only within every fold"
    return None


def _one_class(labels: NDArray[np.int64], folds: NDArray[np.int64]) -> str | None:
    """Why a fold cannot be trained without, or none of them be scored."""
    names = np.unique(folds)
    for fold in names:
        if len(np.unique(labels[folds != fold])) < 2:
            return f"one class only outside fold {fold}"
    if not any(len(np.unique(labels[folds == fold])) == 2 for fold in names):
        return "no fold holds both classes"
    return None

"""Folds that keep a group whole and every fold's base rate close to the whole's.

A group is everything an item shares with others (template, source, contrast pair, paraphrase).
Power goes with groups, not rows, and a group on both sides of a split turns memory into skill.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold

MIN_ITEMS_PER_CLASS = 10


def binary_labels(y: ArrayLike) -> NDArray[np.int64]:
    """Labels as 0/1 integers `[item]`; bools and 0/1 floats are taken, anything else refused."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one label an item, got shape {labels.shape}")
    values = np.unique(labels)
    if not np.isin(values, (0, 1)).all():
        raise ValueError(f"y must hold only 0 and 1, got {values[:5].tolist()}; binarize it first")
    return labels.astype(np.int64)


def group_codes(groups: ArrayLike) -> NDArray[np.int64]:
    """Groups of any hashable kind as integers 0..G-1 `[item]`."""
    names = np.asarray(groups)
    if names.ndim != 1:
        raise ValueError(f"groups must be one name an item, got shape {names.shape}")
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def skip_reason(y: ArrayLike, groups: ArrayLike, n_folds: int = 5) -> str | None:
    """Why these labels cannot be scored in `n_folds` grouped folds, or None if they can."""
    labels = binary_labels(y)
    codes = group_codes(groups)
    if len(labels) != len(codes):
        raise ValueError(f"y has {len(labels)} items and groups {len(codes)}; give one group each")
    positives = int(labels.sum())
    negatives = len(labels) - positives
    if min(positives, negatives) == 0:
        empty = "positive" if positives == 0 else "negative"
        return f"no {empty} items among {len(labels)}"
    if min(positives, negatives) < MIN_ITEMS_PER_CLASS:
        name, count = ("positive", positives) if positives < negatives else ("negative", negatives)
        return f"only {count} {name} items; at least {MIN_ITEMS_PER_CLASS} are needed"
    n_groups = int(codes.max()) + 1
    if n_groups < n_folds:
        return f"only {n_groups} groups for {n_folds} folds"
    return None


def check_groups(folds: ArrayLike, groups: ArrayLike) -> None:
    """Raise ValueError if any group lies in more than one fold."""
    fold_of = np.asarray(folds)
    names = np.asarray(groups)
    if fold_of.shape != names.shape:
        raise ValueError(
            f"folds has shape {fold_of.shape} and groups {names.shape}; they must agree"
        )
    codes = group_codes(names)
    first = np.unique(codes, return_index=True)[1]
    straddling = fold_of != fold_of[first][codes]
    if straddling.any():
        raise ValueError(
            f"groups: {str(names[straddling][0])!r} lies in more than one fold; "
            "use grouped_folds so that a group is never split"
        )


def grouped_folds(
    y: ArrayLike, groups: ArrayLike, n_folds: int = 5, seed: int = 0
) -> Int[np.ndarray, "item"]:
    """The fold (0..n_folds-1) of every item: groups whole, outcomes balanced, shuffled by seed.

    Raises ValueError where `skip_reason` names one.
    """
    if n_folds < 2:
        raise ValueError(f"n_folds must be at least 2, got {n_folds}")
    reason = skip_reason(y, groups, n_folds)
    if reason is not None:
        raise ValueError(f"cannot make folds: {reason}")
    labels = binary_labels(y)
    codes = group_codes(groups)
    splitter = StratifiedGroupKFold(n_splits=n_folds, shuffle=True, random_state=seed)
    folds = np.empty(len(labels), dtype=np.int64)
    for fold, (_, test) in enumerate(splitter.split(labels[:, None], labels, codes)):
        folds[test] = fold
    return folds


def regrouped_folds(
    y: ArrayLike,
    groups: ArrayLike,
    n_folds: int = 5,
    n_regroupings: int = 5,
    seed: int = 0,
) -> Int[np.ndarray, "regrouping item"]:
    """Several independent `grouped_folds`, a function of the arguments alone.

    Predictors that are to be compared get the same folds by giving the same y, groups and seed.
    """
    if n_regroupings < 1:
        raise ValueError(f"n_regroupings must be at least 1, got {n_regroupings}")
    seeds: Sequence[int] = np.random.SeedSequence(seed).generate_state(n_regroupings).tolist()
    return np.stack([grouped_folds(y, groups, n_folds, one) for one in seeds])

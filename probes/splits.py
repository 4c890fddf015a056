"""Folds that keep a group whole and every fold's base rate close to the whole's.

A group is everything an item shares with others (template, source, contrast pair, paraphrase).
Power goes with groups, not rows, and a group on both sides of a split turns memory into skill.
"""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold

MIN_ITEMS_PER_CLASS = 10
TRAINING_ONLY = -1
"""In a row of `train_on_one_folds`: the item is trained on and never scored."""


def binary_labels(y: ArrayLike) -> NDArray[np.int64]:
    """Labels as 0/1 integers `[item]`; bools and 0/1 floats are taken, anything else refused."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one label an item, got shape {labels.shape}")
    wrong = ~np.isin(labels, (0, 1))
    if wrong.any():
        found = list(dict.fromkeys(labels[wrong].tolist()))[:5]
        raise ValueError(f"y must hold only 0 and 1, got {found}; binarize it first")
    return labels.astype(np.int64)


def group_codes(groups: ArrayLike) -> NDArray[np.int64]:
    """Groups as integers 0..G-1 `[item]`, names sorted; refused are nan and names of mixed kinds."""
    names = np.asarray(groups)
    if names.ndim != 1:
        raise ValueError(f"groups must be one name an item, got shape {names.shape}")
    if names.dtype.kind == "f" and np.isnan(names).any():
        raise ValueError(f"groups[{np.isnan(names).argmax()}] is nan; give every item a group")
    return _sorted_codes("groups", names)[1]


def groups_of(y: ArrayLike, groups: ArrayLike) -> NDArray[np.int64]:
    """`group_codes`, one for each of the labels `[item]`."""
    codes, n_items = group_codes(groups), len(np.asarray(y))
    if len(codes) != n_items:
        raise ValueError(f"y has {n_items} items and groups {len(codes)}; give one group each")
    return codes


def _sorted_codes(
    field: str, names: NDArray[np.generic]
) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """The different names, sorted, and each item's among them."""
    try:
        known, codes = np.unique(names, return_inverse=True)
    except TypeError:
        kinds = sorted({type(one).__name__ for one in names.tolist()})
        raise ValueError(f"{field} mixes {' and '.join(kinds)}; make all of one kind") from None
    return known, codes.astype(np.int64)


def skip_reason(y: ArrayLike, groups: ArrayLike, n_folds: int = 5) -> str | None:
    """Why these labels cannot be scored in `n_folds` grouped folds, or None if they can."""
    labels = binary_labels(y)
    codes = groups_of(labels, groups)
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
    _check_whole(folds, groups, "folds", "fold", "use grouped_folds so that a group is never split")


def _check_whole(parts: ArrayLike, groups: ArrayLike, name: str, kind: str, mend: str) -> None:
    part_of = np.asarray(parts)
    names = np.asarray(groups)
    if part_of.shape != names.shape:
        raise ValueError(
            f"{name} has shape {part_of.shape} and groups {names.shape}; they must agree"
        )
    codes = group_codes(names)
    first = np.unique(codes, return_index=True)[1]
    straddling = part_of != part_of[first][codes]
    if straddling.any():
        raise ValueError(
            f"groups: {str(names[straddling][0])!r} lies in more than one {kind}; {mend}"
        )


def leave_one_group_out(groups: ArrayLike) -> Int[np.ndarray, "item"]:
    """Folds of one group each, numbered in the groups' sorted order.

    Same-fold scores then count only pairs within a group: where the group decides the label there
    is none. Use it for scores that are summed item by item, or with few large groups.
    """
    return leave_one_stratum_out(groups, groups)


def leave_one_stratum_out(strata: ArrayLike, groups: ArrayLike) -> Int[np.ndarray, "item"]:
    """Folds of one stratum each (topic, source, label), numbered in the strata's sorted order.

    A probe is trained on all other strata: does it carry over to one it has never seen?

    Raises ValueError for fewer than 2 strata, and for a group that lies in more than one.
    """
    folds = group_codes(strata)
    _check_whole(folds, groups, "strata", "stratum", "merge the strata that share it")
    n_strata = len(np.unique(folds))
    if n_strata < 2:
        raise ValueError(f"strata: leaving one out needs at least 2, got {n_strata}")
    return folds


def train_on_one_folds(
    datasets: ArrayLike, groups: ArrayLike
) -> tuple[tuple[str, ...], Int[np.ndarray, "dataset item"]]:
    """For every dataset, a fold vector that trains on it alone and tests on each of the others.

    Returns:
        The names of the datasets, sorted, and a row for each: `TRAINING_ONLY` for its own items,
        and for all others the index of their dataset. A model is fitted on the `TRAINING_ONLY`
        items and no others; the rest are scored within their own dataset, as within a fold.

    Raises ValueError for fewer than 2 datasets, and for a group that lies in more than one.
    """
    names, codes = np.unique(np.asarray(datasets), return_inverse=True)
    _check_whole(codes, groups, "datasets", "dataset", "leave it out of all but one")
    if len(names) < 2:
        raise ValueError(f"datasets: testing on others needs at least 2, got {len(names)}")
    own = codes == np.arange(len(names))[:, None]
    return tuple(str(name) for name in names), np.where(own, TRAINING_ONLY, codes)


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
    return stratified_folds(binary_labels(y), group_codes(groups), n_folds, seed)


def grouped_folds_of_values(
    y: ArrayLike, groups: ArrayLike, n_folds: int = 5, seed: int = 0
) -> Int[np.ndarray, "item"]:
    """`grouped_folds` for a continuous target `[item]`: balanced in the target's quintiles.

    Raises ValueError for a target that is not finite or constant, and for fewer groups than folds.
    """
    if n_folds < 2:
        raise ValueError(f"n_folds must be at least 2, got {n_folds}")
    values = continuous_target(y)
    codes = groups_of(values, groups)
    n_groups = int(codes.max()) + 1
    if n_groups < n_folds:
        raise ValueError(f"cannot make folds: only {n_groups} groups for {n_folds} folds")
    cuts = np.unique(np.quantile(values, [0.2, 0.4, 0.6, 0.8]))
    bins = np.searchsorted(cuts, values, side="right")
    return stratified_folds(bins, codes, n_folds, seed)


def class_codes(y: ArrayLike) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """The classes of labels `[item]` of any kind, sorted, and each item's class 0..K-1."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one label an item, got shape {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"y[{np.isnan(labels).argmax()}] is nan; leave out items without a class")
    return _sorted_codes("y", labels)


def class_skip_reason(y: ArrayLike, groups: ArrayLike, n_folds: int = 5) -> str | None:
    """Why these classes cannot be told apart in `n_folds` grouped folds, or None if they can."""
    classes, codes = class_codes(y)
    of_group = groups_of(codes, groups)
    if len(classes) < 2:
        return f"no second class among {len(codes)} items"
    for code, name in enumerate(classes):
        n_items = int((codes == code).sum())
        n_groups = len(np.unique(of_group[codes == code]))
        if n_items < MIN_ITEMS_PER_CLASS:
            return (
                f"only {n_items} items of class {name!s}; at least {MIN_ITEMS_PER_CLASS} are needed"
            )
        if n_groups < 2:
            return f"all items of class {name!s} lie in one group"
    n_groups = int(of_group.max()) + 1
    return f"only {n_groups} groups for {n_folds} folds" if n_groups < n_folds else None


def grouped_folds_of_classes(
    y: ArrayLike, groups: ArrayLike, n_folds: int = 5, seed: int = 0
) -> Int[np.ndarray, "item"]:
    """`grouped_folds` for labels of several classes; raises ValueError where `class_skip_reason` names one."""
    if n_folds < 2:
        raise ValueError(f"n_folds must be at least 2, got {n_folds}")
    reason = class_skip_reason(y, groups, n_folds)
    if reason is not None:
        raise ValueError(f"cannot make folds: {reason}")
    return stratified_folds(class_codes(y)[1], group_codes(groups), n_folds, seed)


def stratified_folds(
    strata: NDArray[np.int64], groups: NDArray[np.int64], n_folds: int, seed: int
) -> NDArray[np.int64]:
    """Folds 0..n_folds-1 of whole groups, every stratum spread over them as evenly as groups allow."""
    rows = (np.asarray(codes, dtype=np.int64).tobytes() for codes in (strata, groups))
    return _stratified_folds(*rows, n_folds, seed).copy()


@lru_cache(maxsize=64)
def _stratified_folds(
    strata_bytes: bytes, group_bytes: bytes, n_folds: int, seed: int
) -> NDArray[np.int64]:
    """Remembered, for every predictor of a comparison asks for the same folds, and they take as long as its fit."""
    strata, groups = (np.frombuffer(rows, dtype=np.int64) for rows in (strata_bytes, group_bytes))
    splitter = StratifiedGroupKFold(n_splits=n_folds, shuffle=True, random_state=seed)
    folds = np.empty(len(strata), dtype=np.int64)
    with warnings.catch_warnings():
        # A stratum with fewer items than folds is no defect here; it only balances less.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        for fold, (_, test) in enumerate(splitter.split(strata[:, None], strata, groups)):
            folds[test] = fold
    return folds


def continuous_target(y: ArrayLike) -> NDArray[np.float64]:
    """A rate or a count `[item]` as floats; refused are words, nan, inf and a constant."""
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("y must be numbers; a class has no rate, give 0/1 labels") from error
    if values.ndim != 1:
        raise ValueError(f"y must be one value an item, got shape {values.shape}")
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise ValueError(f"y[{wrong[0]}] is {values[wrong[0]]}; leave out items without a value")
    if not len(values) or values.min() == values.max():
        raise ValueError(f"y is the same for all {len(values)} items; there is nothing to predict")
    return values


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
    seeds = seeds_of_regroupings(n_regroupings, seed)
    return np.stack([grouped_folds(y, groups, n_folds, one) for one in seeds])


def seeds_of_regroupings(n_regroupings: int, seed: int) -> list[int]:
    """A seed for the folds of every regrouping; raises ValueError for none."""
    if n_regroupings < 1:
        raise ValueError(f"n_regroupings must be at least 1, got {n_regroupings}")
    seeds: list[int] = np.random.SeedSequence(seed).generate_state(n_regroupings).tolist()
    return seeds

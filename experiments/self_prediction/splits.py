"""Whole groups to train on, to stop by and to test on; and whole strata that are only ever tested on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from experiments.self_prediction.labeled import Labeled
from probes import grouped_folds

TEST_FOLDS = 4
"""One of so many folds of the groups is tested on."""
VALIDATION_FOLDS = 5
"""One of so many folds of the rest decides when to stop, and what is chosen."""
MIN_OF_CLASS = 10
"""Items of either class that training and testing need at least."""
MIN_GROUPS = 4
"""Groups of a stratum that is held out, so that it can have an interval."""
MIN_OF_CLASS_TO_STOP = 2
"""The same of the validation part."""


class TooFewError(ValueError):
    """Items of a class are too few to learn from or to test on."""


@dataclass(frozen=True)
class Parts:
    """The items of one task, divided; no group is in two parts.

    Attributes:
        train: what is learned from.
        validation: what decides when to stop and which cell a probe reads.
        test: groups that nothing was learned from, of the same strata.
        other_templates: a whole stratum that nothing was learned from; None where no stratum can be spared.
    """

    train: Labeled
    validation: Labeled
    test: Labeled
    other_templates: Labeled | None


def split(
    labeled: Labeled, *, seed: int = 0, validation_seed: int = 0, held_out: str | None = "auto"
) -> Parts:
    """Divide the items of a task.

    Args:
        labeled: all of them.
        seed: of the folds that are tested on.
        validation_seed: of those that decide when to stop; another one leaves the test as it is.
        held_out: the stratum that is only tested on; "auto" takes the smallest that holds enough of both classes and
            leaves enough, None holds none out.

    Raises:
        ValueError: too few items of a class or too few groups for a part; an unknown stratum.
    """
    check_classes(labeled, "items")
    stratum = _spared(labeled) if held_out == "auto" else held_out
    apart = np.zeros(len(labeled), dtype=bool)
    if stratum is not None:
        if stratum not in labeled.strata:
            raise ValueError(
                f"held_out: task {labeled.task.name!r} has no stratum {stratum!r}; "
                f"it has {', '.join(sorted(set(labeled.strata)))}"
            )
        apart = labeled.strata == stratum
    # A group that reaches into the stratum would be on both sides.
    inside = ~np.isin(labeled.groups, labeled.groups[apart])
    rest = labeled.take(inside)
    check_classes(rest, "items outside the held-out stratum")
    test_fold = _folds(rest, TEST_FOLDS, seed) == 0
    seen = rest.take(~test_fold)
    validation_fold = _folds(seen, VALIDATION_FOLDS, validation_seed) == 0
    parts = Parts(
        train=seen.take(~validation_fold),
        validation=seen.take(validation_fold),
        test=rest.take(test_fold),
        other_templates=labeled.take(apart) if stratum is not None else None,
    )
    check_classes(parts.train, "training items")
    check_classes(parts.validation, "validation items", MIN_OF_CLASS_TO_STOP)
    check_classes(parts.test, "test items", MIN_OF_CLASS // 2)
    return parts


def check_classes(labeled: Labeled, what: str, at_least: int = MIN_OF_CLASS) -> None:
    """Raise TooFewError where a class has fewer items than are needed."""
    ones = int(labeled.outcome.sum())
    for name, n in (("1", ones), ("0", len(labeled) - ones)):
        if n < at_least:
            raise TooFewError(
                f"{what}: {n} of task {labeled.task.name!r} have outcome {name}, at least {at_least} are needed; "
                "give more items, or another task"
            )


def _folds(labeled: Labeled, n_folds: int, seed: int) -> Int[np.ndarray, " item"]:
    n_groups = len(set(labeled.groups))
    if n_groups < n_folds:
        raise ValueError(
            f"items: {n_groups} groups of task {labeled.task.name!r} cannot be divided into {n_folds} parts; "
            "give more groups"
        )
    return grouped_folds(labeled.outcome, labeled.groups, n_folds, seed)


def _spared(labeled: Labeled) -> str | None:
    """The smallest stratum with enough of both classes whose absence leaves enough; None where there is none."""
    candidates = []
    for stratum in dict.fromkeys(labeled.strata.tolist()):
        inside = labeled.strata == stratum
        outside = ~np.isin(labeled.groups, labeled.groups[inside])
        if (
            len(set(labeled.groups[inside])) >= MIN_GROUPS
            and _fewest(labeled.outcome[inside]) >= MIN_OF_CLASS
            and _fewest(labeled.outcome[outside]) >= 3 * MIN_OF_CLASS
        ):
            candidates.append((int(inside.sum()), stratum))
    return min(candidates)[1] if candidates else None


def _fewest(outcome: np.ndarray) -> int:
    return min(int(outcome.sum()), int(len(outcome) - outcome.sum()))

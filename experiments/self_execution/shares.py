"""How often each predictor is right on the same items, and by how much the self-prediction is ahead of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probes import FEW_GROUPS, Interval, mean_interval

Reading = Literal["strict", "lenient"]
"""Strict counts what could not be read as wrong, lenient leaves it out for every predictor."""
READINGS: tuple[Reading, ...] = ("strict", "lenient")


@dataclass(frozen=True)
class Shares:
    """Predictors by name, the self-prediction as `self`."""

    n_items: int
    share: Mapping[str, Interval]
    self_minus: Mapping[str, Interval]
    """Of the self-prediction minus another, paired."""


def shares_right(
    right: Mapping[str, NDArray[Any]],
    counted: NDArray[np.bool_],
    groups: NDArray[np.str_],
    interval: Callable[[ArrayLike, ArrayLike], Interval],
) -> Shares:
    """Mean of every predictor's scores `[item]`, from 0 to 1, over the items that are counted.

    Args:
        right: scores; of `self` too.
        counted: which items are, at least one of them.
        groups: of every item.
        interval: `rate_interval` for scores that are 0 or 1, else `mean_interval`.
    """
    of = groups[counted]
    kept = {name: np.asarray(one, dtype=np.float64)[counted] for name, one in right.items()}
    return Shares(
        n_items=len(of),
        share={name: clustered(one, of, interval) for name, one in kept.items()},
        self_minus={
            name: clustered(kept["self"] - one, of, mean_interval)
            for name, one in kept.items()
            if name != "self"
        },
    )


def clustered(
    values: NDArray[Any],
    groups: NDArray[np.str_],
    interval: Callable[[ArrayLike, ArrayLike], Interval],
) -> Interval:
    """The mean of values with its interval; nan bounds where there are no two groups, a nan where there is no value."""
    n_groups = len(set(groups.tolist()))
    if n_groups > 1:
        return interval(values, groups)
    mean = float(values.mean()) if len(values) else np.nan
    return unbounded(mean, n_groups)


def unbounded(estimate: float, n_groups: int) -> Interval:
    """An estimate that has no interval."""
    return Interval(estimate, np.nan, np.nan, "none", n_groups, n_groups < FEW_GROUPS)

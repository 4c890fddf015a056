"""Items of one task whose outcome is known: what every way of teaching is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from experiments.tasks import Item, Task


@dataclass(frozen=True)
class Labeled:
    """Items of a task with what the model did.

    Attributes:
        task: that the items belong to.
        items: in the order of `outcome`.
        outcome: 1 where the event happened, 0 where it did not.

    Raises:
        ValueError: an outcome that is not 0 or 1, or not one an item.
    """

    task: Task
    items: tuple[Item, ...]
    outcome: Int[np.ndarray, " item"]

    def __post_init__(self) -> None:
        if self.outcome.shape != (len(self.items),):
            raise ValueError(
                f"outcome: shape {self.outcome.shape} for {len(self.items)} items; give one an item"
            )
        if not np.isin(self.outcome, (0, 1)).all():
            raise ValueError("outcome: holds other values than 0 and 1; leave unscored items out")

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def ids(self) -> list[str]:
        """Item ids, in order."""
        return [item.id for item in self.items]

    @cached_property
    def groups(self) -> np.ndarray:
        """The group of every item, which no split divides."""
        return np.array([item.group for item in self.items], dtype=str)

    @cached_property
    def strata(self) -> np.ndarray:
        """The stratum of every item."""
        return np.array([item.stratum for item in self.items], dtype=str)

    def take(self, index: ArrayLike) -> Labeled:
        """Some of the items: their places, or a mask of all."""
        kept = np.arange(len(self))[np.asarray(index)]
        return replace(
            self, items=tuple(self.items[int(i)] for i in kept), outcome=self.outcome[kept]
        )

    def relabeled(self, outcome: ArrayLike) -> Labeled:
        """The same items with other labels (shuffled, or a peer's)."""
        return replace(self, outcome=np.asarray(outcome, dtype=np.int64))

    def joined(self, other: Labeled) -> Labeled:
        """These items and then those of `other`, of the same task.

        Raises:
            ValueError: an item that both hold.
        """
        shared = set(self.ids) & set(other.ids)
        if shared:
            raise ValueError(f"items: {min(shared)!r} stands in both parts; give each once")
        return replace(
            self,
            items=(*self.items, *other.items),
            outcome=np.concatenate([self.outcome, other.outcome]),
        )


def labeled_of(task: Task, items: Sequence[Item], outcome: Sequence[int | None]) -> Labeled:
    """Items with their outcomes; those whose outcome is None could not be scored and are left out."""
    values = np.array(outcome, dtype=float)
    scored = ~np.isnan(values)
    kept = tuple(item for item, is_scored in zip(items, scored, strict=True) if is_scored)
    return Labeled(task, kept, values[scored].astype(np.int64))

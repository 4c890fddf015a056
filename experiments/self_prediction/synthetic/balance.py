"""Half of each outcome, in every stratum and in every beginning of what is kept.

Within a stratum an item with the event is kept together with one without it, in the order in which they were made: so
more drafts only add to the end, and a smaller set is the beginning of a larger one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Pairs(Generic[T]):
    """What was kept so far, and what waits for its counterpart."""

    def __init__(self) -> None:
        self.kept: list[tuple[T, int]] = []
        self._waiting: dict[tuple[str, int], deque[T]] = defaultdict(deque)

    def add(self, stratum: str, outcome: int, one: T) -> None:
        """Take in an item; with it a pair may be whole."""
        counterparts = self._waiting[stratum, 1 - outcome]
        if not counterparts:
            self._waiting[stratum, outcome].append(one)
            return
        pair = {outcome: one, 1 - outcome: counterparts.popleft()}
        self.kept += [(pair[1], 1), (pair[0], 0)]

    @property
    def n_waiting(self) -> int:
        """How many have no counterpart."""
        return sum(map(len, self._waiting.values()))

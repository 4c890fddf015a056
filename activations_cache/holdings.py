"""Which items a cache holds: in every part, committed or waiting, and in which rows of which shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Int

from activations_cache.journal import ShardRecord
from activations_cache.plan import BatchPlan


class Holdings:
    """An index over the committed shards and over the rows that wait for theirs.

    A part may hold less than another: an extension adds cells to items that are there, batch by
    batch, and a repair takes a part's shard away.
    """

    def __init__(self, n_parts: int, shards: Iterable[ShardRecord], plan: BatchPlan | None) -> None:
        self.plan = plan
        self.shards: list[list[ShardRecord]] = [[] for _ in range(n_parts)]
        self._rows: list[dict[str, int]] = [{} for _ in range(n_parts)]
        self._starts: list[list[int]] = [[0] for _ in range(n_parts)]
        self._claimed: list[set[str]] = [set() for _ in range(n_parts)]
        self._seen: dict[str, None] = {}
        self._ids: tuple[str, ...] | None = None
        self._all_rows: dict[int, Int[np.ndarray, "item"]] = {}
        for shard in shards:
            self.add(shard)

    def add(self, shard: ShardRecord) -> None:
        """Count a committed shard."""
        rows, starts = self._rows[shard.part], self._starts[shard.part]
        first = starts[-1]
        rows.update(zip(shard.ids, range(first, first + len(shard.ids)), strict=True))
        starts.append(first + len(shard.ids))
        self.shards[shard.part].append(shard)
        self.claim(shard.part, shard.ids)

    def claim(self, part: int, ids: Iterable[str]) -> None:
        """Count ids as held by a part, whether or not they are committed."""
        ids = tuple(ids)
        self._claimed[part].update(ids)
        self._seen.update(dict.fromkeys(ids))
        self._ids = None
        self._all_rows.clear()

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids held by any part: in the order of the plan, without one in that of their coming."""
        if self._ids is None:
            if self.plan is None:
                self._ids = tuple(self._seen)
            else:
                self._ids = tuple(item for item in self.plan.ids if item in self._seen)
        return self._ids

    @property
    def is_empty(self) -> bool:
        """Whether no part holds anything."""
        return not self._seen

    @property
    def done(self) -> frozenset[str]:
        """Ids held by every part."""
        return frozenset.intersection(*map(frozenset, self._claimed))

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """Those of `ids` that no part holds."""
        return [item for item in ids if item not in self._seen]

    def held_by_all(self, ids: Iterable[str]) -> list[str]:
        """Those of `ids` that every part holds."""
        return [item for item in ids if all(item in held for held in self._claimed)]

    @property
    def n_committed(self) -> int:
        """How many items are on disk in every part."""
        first, *others = self._rows
        return sum(all(item in rows for rows in others) for item in first) if others else len(first)

    def count(self, part: int) -> int:
        """How many items a part holds."""
        return len(self._claimed[part])

    def is_whole(self, part: int) -> bool:
        """Whether a part holds every item that the cache holds."""
        return len(self._claimed[part]) == len(self._seen)

    def lacking(self, part: int, ids: Sequence[str]) -> list[int]:
        """Which of `ids`, by their number, a part lacks."""
        held = self._claimed[part]
        return [row for row, item in enumerate(ids) if item not in held]

    def rows(self, part: int, ids: Sequence[str] | None) -> Int[np.ndarray, "item"]:
        """The rows of committed ids (default: all), counted through all shards of a part."""
        if ids is None:
            if part not in self._all_rows:
                self._all_rows[part] = self.rows(part, self.ids)
            return self._all_rows[part]
        place = self._rows[part]
        return np.fromiter((place[item] for item in ids), dtype=np.int64, count=len(ids))

    def by_shard(
        self, part: int, rows: Int[np.ndarray, "item"]
    ) -> Iterator[tuple[ShardRecord, Int[np.ndarray, "row"], Int[np.ndarray, "row"]]]:
        """The shards that hold `rows`; for each which of `rows` these are, and its own row numbers."""
        order = np.argsort(rows, kind="stable")
        starts = np.array(self._starts[part])
        bounds = np.searchsorted(rows[order], starts)
        for number in np.flatnonzero(np.diff(bounds)):
            here = order[bounds[number] : bounds[number + 1]]
            yield self.shards[part][number], here, rows[here] - starts[number]

"""The batch plan: which items run together, fixed before the first forward pass.

Padding depends on who shares a batch, so a batch that is captured again must have the same members.
`plan.json` holds the ids of every batch in the order in which they run; it is written once.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import FailFast

from activations_cache.atomic import DamagedFileError, read_regular, replace_file
from activations_cache.documents import Document, Ids
from hooks.activations import is_id

FILE_NAME = "plan.json"


class _File(Document):
    """The file as it is written."""

    batches: Annotated[tuple[Ids, ...], FailFast()]


@dataclass(frozen=True)
class BatchPlan:
    """The ids of every batch."""

    batches: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, batches: Sequence[Sequence[str]]) -> BatchPlan:
        """Check and keep batches of ids; ValueError names what makes them no plan."""
        for batch in batches:
            if isinstance(batch, str) or not isinstance(batch, Sequence):
                raise ValueError(f"plan: {batch!r} is not a batch; give batches of ids")
        plan = cls(tuple(tuple(batch) for batch in batches))
        if not plan.ids or not all(plan.batches):
            raise ValueError("plan: a batch is empty; give non-empty batches of ids")
        for item, count in Counter(plan.ids).items():
            if not is_id(item):
                raise ValueError(f"plan: {item!r} is no id; ids are strings without NUL")
            if count > 1:
                raise ValueError(f"plan: id {item!r} comes {count} times; ids must be unique")
        return plan

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """All ids, in the order in which they run."""
        return tuple(item for batch in self.batches for item in batch)

    @cached_property
    def _batch_of(self) -> dict[str, int]:
        return {item: number for number, batch in enumerate(self.batches) for item in batch}

    def number(self, ids: tuple[str, ...]) -> int:
        """Which batch `ids` are; ValueError where they are none."""
        number = self._batch_of.get(ids[0]) if ids else None
        if number is not None and self.batches[number] == ids:
            return number
        mend = "run the plan's own batches, those with an id not in cache.done"
        strange = [item for item in ids if item not in self._batch_of]
        if strange:
            raise ValueError(f"ids: {strange[0]!r} is not in the cache's plan; {mend}")
        if number is None:
            raise ValueError(f"ids: an empty batch is not in the cache's plan; {mend}")
        raise ValueError(
            f"ids: {_names(ids)} are no batch of the cache's plan, where {ids[0]!r} runs in batch "
            f"{number}: {_names(self.batches[number])}; {mend}"
        )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the file; what the manifest keeps of it."""
        data = json.dumps({"batches": self.batches}, ensure_ascii=False, indent=0).encode()
        replace_file(folder / FILE_NAME, data)
        return {
            "file": FILE_NAME,
            "sha256": hashlib.sha256(data).hexdigest(),
            "batches": len(self.batches),
            "items": len(self.ids),
        }

    @classmethod
    def load(cls, folder: Path, sha256: str) -> BatchPlan:
        """Read the file; ValueError where it is missing or not what was written."""
        path = folder / FILE_NAME
        try:
            data = read_regular(path)
        except OSError as error:
            raise DamagedFileError(path, f"cannot be read ({error.strerror})") from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise DamagedFileError(path, "is damaged (its sha256 is not the manifest's)")
        try:
            return cls.of(_File.parse(data).batches)
        except ValueError as error:
            raise DamagedFileError(path, f"is damaged ({error!s:.200})") from None


def check_plan(stored: BatchPlan | None, wanted: Sequence[Sequence[str]], folder: Path) -> None:
    """Raise ValueError saying how a plan differs from that of the cache."""
    mend = "capture the same prompts with the same batching, or into a new folder"
    if stored is None:
        raise ValueError(f"plan: cache {folder} was made without one; capture into a new folder")
    plan = BatchPlan.of(wanted)
    if plan == stored:
        return
    new, gone = (
        [item for item in here if item not in there]
        for here, there in (
            (plan.ids, frozenset(stored.ids)),
            (stored.ids, frozenset(plan.ids)),
        )
    )
    differences = [
        f"{len(items)} ids are {place}, for example {items[0]!r}"
        for items, place in ((new, "only here"), (gone, "only there"))
        if items
    ]
    if not differences:
        number, here, there = next(
            (number, here, there)
            for number, (here, there) in enumerate(
                zip((*plan.batches, ()), (*stored.batches, ()), strict=False)
            )
            if here != there
        )
        differences = [f"batch {number} is {_names(there)} there and {_names(here)} here"]
    raise ValueError(f"plan: cache {folder} has another one: {'; '.join(differences)}; {mend}")


def to_ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Ascending runs as [first, last]: batches mostly come one after the other."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def from_ranges(ranges: Sequence[Sequence[int]], n: int) -> tuple[int, ...]:
    """The numbers of `to_ranges`; ValueError where they are not below `n`, or more than `n`."""
    if not all(first <= last < n for first, last in ranges):
        raise ValueError(f"field batches: a range that is not within the {n} of the plan")
    if sum(last - first + 1 for first, last in ranges) > n:
        raise ValueError(f"field batches: more than the {n} of the plan")
    return tuple(number for first, last in ranges for number in range(first, last + 1))


def _names(ids: Sequence[str]) -> str:
    if len(ids) <= 3:
        return ", ".join(map(repr, ids)) or "none"
    return f"{ids[0]!r} to {ids[-1]!r} ({len(ids)} items)"

"""The journal: one line of JSON a committed shard, appended and fsynced after the shard is.

`shards.jsonl` is the truth about what a cache holds: a shard that it does not list does not belong
to the cache. It only ever grows, so a commit costs the same however large the cache is. A last line
without its newline is one that was being written when the writer died; it does not count.

    {"file": "shard-0-000000.h5", "part": 0, "bytes": 123, "sha256": "...", "items": 512,
     "offsets": {SITE: where its numbers begin, in bytes} or null where they are compressed,
     "batches": [[first, last], ...] numbers in the plan, or "ids": [...] without a plan}
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import FailFast, Field

from activations_cache.atomic import open_regular, replace_file
from activations_cache.documents import Count, Document, Ids, Sha256
from activations_cache.plan import BatchPlan, from_ranges, to_ranges
from hooks.activations import SITES

FILE_NAME = "shards.jsonl"
SHARD_FILE = re.compile("shard-([0-9]{1,6})-([0-9]{6,12})[.]h5")
"""Part and number. A line that names any other file is damaged: it may lead out of the folder."""


class _Line(Document):
    """A line as it is written."""

    file: str
    part: Count
    bytes: Count
    sha256: Sha256
    items: Annotated[Count, Field(ge=1)]
    offsets: Annotated[dict[str, Count], Field(max_length=len(SITES))] | None
    batches: Annotated[tuple[tuple[Count, Count], ...], FailFast()] = ()
    ids: Ids = ()


@dataclass(frozen=True)
class ShardRecord:
    """A committed shard.

    `ids` are those of its rows; `batches` their batches in the plan, empty without a plan;
    `offsets` the byte at which each site's numbers begin, None where they are compressed.
    """

    file: str
    part: int
    n_bytes: int
    sha256: str
    offsets: Mapping[str, int] | None
    ids: tuple[str, ...]
    batches: tuple[int, ...] = ()

    def to_line(self) -> bytes:
        """The line of the journal."""
        rows: dict[str, Any] = (
            {"batches": to_ranges(self.batches)} if self.batches else {"ids": self.ids}
        )
        document = {
            "file": self.file,
            "part": self.part,
            "bytes": self.n_bytes,
            "sha256": self.sha256,
            "items": len(self.ids),
            "offsets": self.offsets,
            **rows,
        }
        return json.dumps(document, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes, plan: BatchPlan | None) -> ShardRecord:
        """Read a line; ValueError where it is damaged."""
        written = _Line.parse(line)
        name = SHARD_FILE.fullmatch(written.file)
        if name is None or int(name[1]) != written.part:
            raise ValueError("field file: is no name of a shard of this part")
        batches: tuple[int, ...] = ()
        if plan is None:
            ids = written.ids
        else:
            batches = from_ranges(written.batches, len(plan.batches))
            ids = tuple(item for number in batches for item in plan.batches[number])
        if len(ids) != written.items or len(set(ids)) < len(ids):
            raise ValueError(f"field items: {written.items} for {len(set(ids))} ids")
        return cls(
            file=written.file,
            part=written.part,
            n_bytes=written.bytes,
            sha256=written.sha256,
            offsets=written.offsets,
            ids=ids,
            batches=batches,
        )


@dataclass(frozen=True)
class Journal:
    """The journal as it is on disk: shards in the order of their commits, and what is wrong with it.

    `damaged` are the numbers, from 1, of lines that cannot be read; `torn` is whether a last line
    was cut short by a crash.
    """

    shards: tuple[ShardRecord, ...]
    damaged: tuple[int, ...]
    torn: bool


def parse(data: bytes, plan: BatchPlan | None, n_parts: int) -> Journal:
    """Read the bytes of the journal of a cache of so many parts."""
    *lines, rest = data.split(b"\n")
    shards: list[ShardRecord] = []
    damaged: list[int] = []
    files: set[str] = set()
    n_items: Counter[int] = Counter()
    for number, line in enumerate(lines, start=1):
        try:
            shard = ShardRecord.from_line(line, plan)
            if shard.part >= n_parts:
                raise ValueError("field part: the manifest has no such part")
            if shard.file in files:
                raise ValueError("field file: comes twice")
            # Every line may name the whole plan in a few bytes; together they must not fill memory.
            if plan and n_items[shard.part] + len(shard.ids) > 2 * len(plan.ids):
                raise ValueError("field batches: more items than the plan has")
            n_items[shard.part] += len(shard.ids)
            shards.append(shard)
            files.add(shard.file)
        except ValueError:
            damaged.append(number)
    return Journal(tuple(shards), tuple(damaged), torn=bool(rest))


def append(folder: Path, shard: ShardRecord) -> None:
    """Add a line and fsync it; on OSError the journal is as it was."""
    descriptor = open_regular(folder / FILE_NAME, os.O_WRONLY | os.O_APPEND)
    with os.fdopen(descriptor, "ab", buffering=0) as file:
        size = os.fstat(descriptor).st_size
        try:
            line = memoryview(shard.to_line())
            while line:
                line = line[file.write(line) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


def trim(folder: Path) -> None:
    """Cut off a last line that a crash left without its end."""
    with os.fdopen(open_regular(folder / FILE_NAME, os.O_RDWR), "r+b") as file:
        data = file.read()
        if not data.endswith(b"\n"):
            file.truncate(data.rfind(b"\n") + 1)


def rewrite(folder: Path, shards: Iterable[ShardRecord]) -> None:
    """Put a journal of these shards in the place of the old one, atomically."""
    replace_file(folder / FILE_NAME, b"".join(shard.to_line() for shard in shards))

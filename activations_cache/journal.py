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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activations_cache.atomic import replace_file
from activations_cache.plan import BatchPlan, from_ranges, to_ranges

FILE_NAME = "shards.jsonl"


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
        """Read a line; ValueError, KeyError or TypeError where it is damaged."""
        document = json.loads(line)
        batches: tuple[int, ...] = ()
        if plan is None:
            ids = tuple(document["ids"])
        else:
            batches = from_ranges(document["batches"])
            if not all(0 <= number < len(plan.batches) for number in batches):
                raise ValueError("a batch that is not in the plan")
            ids = tuple(item for number in batches for item in plan.batches[number])
        if len(ids) != document["items"]:
            raise ValueError(f"{len(ids)} ids for {document['items']} items")
        return cls(
            file=document["file"],
            part=document["part"],
            n_bytes=document["bytes"],
            sha256=document["sha256"],
            offsets=document["offsets"],
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
    for number, line in enumerate(lines, start=1):
        try:
            shard = ShardRecord.from_line(line, plan)
            if not 0 <= shard.part < n_parts:
                raise ValueError("a part that the manifest does not have")
            shards.append(shard)
        except (ValueError, KeyError, TypeError):
            damaged.append(number)
    return Journal(tuple(shards), tuple(damaged), torn=bool(rest))


def append(folder: Path, shard: ShardRecord) -> None:
    """Add a line and fsync it; on OSError the journal is as it was."""
    with (folder / FILE_NAME).open("ab", buffering=0) as file:
        size = file.tell()
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
    with (folder / FILE_NAME).open("r+b") as file:
        data = file.read()
        if not data.endswith(b"\n"):
            file.truncate(data.rfind(b"\n") + 1)


def rewrite(folder: Path, shards: Iterable[ShardRecord]) -> None:
    """Put a journal of these shards in the place of the old one, atomically."""
    replace_file(folder / FILE_NAME, b"".join(shard.to_line() for shard in shards))

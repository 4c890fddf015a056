"""Is everything in a cache what was written, and is it all there? Reads every byte, changes nothing."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import h5py
import numpy as np

from activations_cache import journal, manifest, plan
from activations_cache.atomic import NOT_REGULAR, DamagedFileError, open_to_read
from activations_cache.contents import read_folder, size_problem
from activations_cache.encoding import FORMATS
from activations_cache.holdings import Holdings
from activations_cache.journal import SHARD_FILE, Journal, ShardRecord
from activations_cache.lock import owner_of
from activations_cache.manifest import Manifest
from activations_cache.names import LOCK_NAME, is_aside
from activations_cache.parts import layers_of
from activations_cache.shard import UNREADABLE, dataset_in, object_in, open_shard

Kind = Literal["damaged", "left over", "incomplete", "unusable"]


@dataclass(frozen=True)
class Problem:
    """Something wrong with a cache.

    `kind` says what a repair makes of it: a shard that is "damaged" is set aside and its items are
    captured again, what is "left over" is removed; "incomplete" wants nothing but the rest of the
    capture; "unusable" cannot be mended. `n_items` items are concerned.
    """

    file: str
    what: str
    n_items: int
    kind: Kind

    def __str__(self) -> str:
        return f"{self.file} {self.what} ({self.n_items} items)"


@dataclass(frozen=True)
class CacheReport:
    """What `verify` found: nothing wrong if `problems` is empty.

    `n_items` have every wanted cell, `n_planned` of them are wanted (None without a plan). While
    another process writes (`being_written`), what it has not finished is no problem.
    """

    path: Path
    problems: tuple[Problem, ...]
    n_items: int
    n_planned: int | None
    n_shards: int
    n_bytes: int
    being_written: bool


def verify(path: str | Path) -> CacheReport:
    """Check manifest, plan, journal and every shard: size, sha256, ids, shapes, dtypes, duplicates.

    Also looks for shards that are not listed, files that a dead writer left, and items of the plan
    or cells of an extension that are still to be captured.

    Raises ValueError where there is no cache, or one of another schema version.
    """
    folder = Path(path)
    try:
        made, batches, lines = read_folder(folder)
    except DamagedFileError as error:
        return CacheReport(
            folder, (Problem(error.file, error.what, 0, "unusable"),), 0, None, 0, 0, False
        )
    owner = owner_of(folder / LOCK_NAME)
    being_written = owner is not None and owner.may_be_alive()
    held = Holdings(len(made.parts), lines.shards, batches)
    problems = list(damages(folder, made, lines))
    if not being_written:
        problems += left_over(folder, lines)
        problems += _incomplete(made, held)
    return CacheReport(
        path=folder,
        problems=tuple(problems),
        n_items=len(held.done),
        n_planned=None if batches is None else len(batches.ids),
        n_shards=len(lines.shards),
        n_bytes=sum(shard.n_bytes for shard in lines.shards),
        being_written=being_written,
    )


def damages(folder: Path, made: Manifest, lines: Journal) -> Iterator[Problem]:
    """Shards that are not what was committed, and lines of the journal that cannot be read.

    A shard whose checksum is right is what was committed: where it is not what the manifest says,
    the manifest is "unusable".
    """
    for number in lines.damaged:
        # Whose items it listed cannot be told; its shard is one that is not listed.
        yield Problem(journal.FILE_NAME, f"is damaged in line {number}", 0, "damaged")
    holder: dict[tuple[int, str], str] = {}
    for shard in lines.shards:
        try:
            what = _shard_problem(folder, made, shard)
        except _OtherManifestError as error:
            what = f"does not fit {shard.file}, whose sha256 is right and which {error}"
            yield Problem(manifest.FILE_NAME, what, len(shard.ids), "unusable")
            return
        again = [item for item in shard.ids if (shard.part, item) in holder]
        if what is None and again:
            first = holder[shard.part, again[0]]
            what = f"holds {again[0]!r} again, which {first} holds"
        if what is None:
            holder |= {(shard.part, item): shard.file for item in shard.ids}
        else:
            yield Problem(shard.file, what, len(shard.ids), "damaged")


def left_over(folder: Path, lines: Journal) -> Iterator[Problem]:
    """What a writer that died was at; a living one's work looks the same."""
    if lines.torn:
        yield Problem(journal.FILE_NAME, "ends in the middle of a line", 0, "left over")
    listed = {shard.file for shard in lines.shards}
    for path in sorted(folder.iterdir()):
        if path.name == LOCK_NAME and not stat.S_ISREG(path.lstat().st_mode):
            yield Problem(LOCK_NAME, f"{NOT_REGULAR}; delete it", 0, "unusable")
        elif path.name == LOCK_NAME:
            yield Problem(LOCK_NAME, "is that of a process that died", 0, "left over")
        elif is_aside(path.name):
            yield Problem(path.name, "was being written when the writer died", 0, "left over")
        elif SHARD_FILE.fullmatch(path.name) and path.name not in listed:
            yield Problem(
                path.name, f"is not listed in {journal.FILE_NAME}", _n_rows(path), "left over"
            )


def _incomplete(made: Manifest, held: Holdings) -> Iterator[Problem]:
    wanted = held.ids if held.plan is None else held.plan.ids
    if n_missing := len(wanted) - len(held.done):
        yield Problem(
            manifest.FILE_NAME if held.plan is None else plan.FILE_NAME,
            f"wants {len(wanted)} items in {len(made.parts)} parts, of which {n_missing} are still "
            "to be captured: run the same capture again",
            n_missing,
            "incomplete",
        )


class _OtherManifestError(Exception):
    """A shard as it was committed is not what the manifest says; in what."""


def _shard_problem(folder: Path, made: Manifest, shard: ShardRecord) -> str | None:
    """What is wrong with a shard, if anything; _OtherManifestError where the manifest is wrong."""
    path = folder / shard.file
    if size := size_problem(folder, shard):
        return size
    try:
        with open_to_read(path) as data:
            sha256 = hashlib.file_digest(data, "sha256").hexdigest()
        if sha256 != shard.sha256:
            return f"is damaged: its sha256 is {sha256[:8]}..., not {shard.sha256[:8]}..."
        with open_shard(path) as file:
            n_items = dataset_in(file, "ids").shape[0]
            if other := next(_unlike_manifest(file, made, shard.part, n_items), None):
                raise _OtherManifestError(other)
            return next(_unlike_line(file, shard), None)
    except PermissionError:
        raise  # it may be whole: nothing is said of it, and nothing done to it
    except UNREADABLE as error:
        return f"cannot be read: {' '.join(str(error).split()):.200}"


def _unlike_manifest(file: h5py.File, made: Manifest, number: int, n_items: int) -> Iterator[str]:
    """In what a shard of the part of this number is not what the manifest says."""
    part, format = made.parts[number], FORMATS[made.dtype]
    for axis in ("layers", "positions"):
        along, wanted = list(file.attrs[axis]), list(getattr(part, axis))
        if along != wanted:
            yield f"holds the {axis} {', '.join(map(str, along))}, not {', '.join(map(str, wanted))}"
    sites = sorted(object_in(file, "activations"))
    if sites != sorted(part.sites):
        yield f"holds the sites {', '.join(sites)}, not {', '.join(part.sites)}"
    for site in part.sites:
        stored = dataset_in(file, f"activations/{site}")
        shape = (len(layers_of(part, site)), len(part.positions), n_items, made.d_model)
        if stored.shape != shape:
            yield f"holds {site} in the shape {stored.shape}, not {shape}"
        if stored.dtype != format.stored or stored.attrs["dtype"] != made.dtype:
            yield f"holds {site} as {stored.attrs['dtype']!r} in {stored.dtype}, not {made.dtype}"
        if (stored.chunks is None) != (made.compression is None):
            yield f"holds {site} {'un' if stored.chunks is None else ''}compressed"
    if number == 0 and not made.options and "option_logprobs" in file.keys():  # noqa: SIM118
        yield "holds options, not none"
    if number == 0 and made.options:
        table = dataset_in(file, "option_logprobs", (n_items, len(made.options)), np.dtype("<f4"))
        names = list(table.attrs["names"])
        if names != list(made.options):
            yield f"holds the options {', '.join(names)}, not {', '.join(made.options)}"


def _unlike_line(file: h5py.File, shard: ShardRecord) -> Iterator[str]:
    """In what a shard is not what its line of the journal says."""
    ids = dataset_in(file, "ids", (len(shard.ids),))
    if tuple(item.decode() for item in ids[:]) != shard.ids:
        yield "holds other ids than were committed"
    for site in {*object_in(file, "activations"), *(shard.offsets or ())}:
        stored = dataset_in(file, f"activations/{site}")
        place = stored.id.get_offset() if stored.chunks is None else None
        listed = (shard.offsets or {}).get(site)
        if place != listed:
            yield f"holds {site} at byte {place}, not {listed}"


def _n_rows(path: Path) -> int:
    try:
        with open_shard(path) as file:
            return int(dataset_in(file, "ids").size)
    except UNREADABLE:
        return 0

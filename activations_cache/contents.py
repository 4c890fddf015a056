"""A cache folder as it was read: manifest, plan, and an index of the committed shards."""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activations_cache import journal, manifest
from activations_cache.atomic import NOT_REGULAR, DamagedFileError, read_regular
from activations_cache.encoding import FORMATS
from activations_cache.holdings import Holdings
from activations_cache.manifest import Manifest, check_fingerprint, check_spec
from activations_cache.parts import layers_of
from activations_cache.plan import BatchPlan, check_plan
from hooks.activations import CaptureSpec

MEND = "`selfprobe cache repair` sets it aside, then capture again with done=cache.done"


@dataclass
class Contents:
    """What a cache is to hold, and what it holds. The writer keeps it up to date."""

    manifest: Manifest
    plan: BatchPlan | None
    holdings: Holdings

    @classmethod
    def load(cls, folder: Path) -> Contents:
        """Read a cache folder.

        Raises ValueError where there is no cache, where manifest, plan or journal is damaged or the
        schema is another, or where a shard is missing, has another size than was committed or does
        not lie as the journal says.
        """
        made, plan, shards = read_folder(folder)
        if shards.damaged:
            raise ValueError(
                f"{folder / journal.FILE_NAME} is damaged (line {shards.damaged[0]}); {MEND}"
            )
        for shard in shards.shards:
            state = size_problem(folder, shard) or layout_problem(made, shard)
            if state:
                raise ValueError(f"shard {folder / shard.file} {state}; {MEND}")
        return cls(made, plan, Holdings(len(made.parts), shards.shards, plan))

    def check(
        self,
        folder: Path,
        fingerprint: Mapping[str, Any] | None,
        spec: CaptureSpec | None,
        plan: Sequence[Sequence[str]] | None,
    ) -> None:
        """Raise ValueError naming what of the given differs from what is stored."""
        if fingerprint is not None:
            check_fingerprint(self.manifest.fingerprint, fingerprint, folder)
        if spec is not None:
            check_spec(self.manifest, spec, folder)
        if plan is not None:
            check_plan(self.plan, plan, folder)


def read_folder(folder: Path) -> tuple[Manifest, BatchPlan | None, journal.Journal]:
    """Manifest, plan and journal; ValueError where one of the three files cannot be used."""
    # The journal first: a writer adds a part to the manifest before it lists a shard of it.
    path = folder / journal.FILE_NAME
    try:
        lines = read_regular(path)
    except OSError:
        lines = None
    made = Manifest.load(folder)
    if lines is None:
        raise DamagedFileError(path, "is missing")
    plan = None if made.plan is None else BatchPlan.load(folder, made.plan["sha256"])
    parsed = journal.parse(lines, plan, len(made.parts))
    for field in ("d_model", "options"):
        if parsed.shards and getattr(made, field) is None:
            raise DamagedFileError(
                folder / manifest.FILE_NAME,
                f"is damaged (field {field}: null, though shards are listed)",
            )
    if parsed.shards and made.spec.layers == "all":
        raise DamagedFileError(
            folder / manifest.FILE_NAME,
            'is damaged (field parts: layers are "all", though shards are listed)',
        )
    return made, plan, parsed


def size_problem(folder: Path, shard: journal.ShardRecord) -> str | None:
    """What is wrong with a shard's size, if anything."""
    try:
        status = (folder / shard.file).lstat()
    except FileNotFoundError:
        return "is missing"
    if not stat.S_ISREG(status.st_mode):
        return NOT_REGULAR
    if status.st_size != shard.n_bytes:
        return f"has {status.st_size} of {shard.n_bytes} bytes"
    return None


def layout_problem(made: Manifest, shard: journal.ShardRecord) -> str | None:
    """What is wrong with the places at which the journal says that a shard's numbers are, if anything."""
    if (shard.offsets is None) != (made.compression is not None):
        return f"is not stored with the compression {made.compression}"
    if shard.offsets is None:
        return None
    part, end = made.parts[shard.part], _HEADER_BYTES
    if shard.offsets.keys() != set(part.sites):
        return "is listed with other sites than its part has"
    row = len(part.positions) * (made.d_model or 0) * FORMATS[made.dtype].stored.itemsize
    for site, offset in sorted(shard.offsets.items(), key=lambda pair: pair[1]):
        if offset < end:
            return f"is listed with {site} at byte {offset}, where other bytes are"
        end = offset + len(layers_of(part, site)) * len(shard.ids) * row
    return (
        f"is listed with numbers beyond its {shard.n_bytes} bytes" if end > shard.n_bytes else None
    )


_HEADER_BYTES = 96
"""An HDF5 file begins with so many of its own."""

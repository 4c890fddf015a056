"""A cache folder as it was read: manifest, plan, and an index of the committed shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activations_cache import journal
from activations_cache.holdings import Holdings
from activations_cache.manifest import Manifest, check_fingerprint, check_spec
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
        schema is another, or where a shard is missing or has another size than was committed.
        """
        manifest, plan, shards = read_folder(folder)
        if shards.damaged:
            raise ValueError(
                f"{folder / journal.FILE_NAME} is damaged (line {shards.damaged[0]}); {MEND}"
            )
        for shard in shards.shards:
            state = size_problem(folder, shard)
            if state:
                raise ValueError(f"shard {folder / shard.file} {state}; {MEND}")
        return cls(manifest, plan, Holdings(len(manifest.parts), shards.shards, plan))

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
        lines = path.read_bytes()
    except OSError:
        lines = None
    manifest = Manifest.load(folder)
    if lines is None:
        raise ValueError(f"{path} is missing; restore it from a copy, or capture into a new folder")
    plan = None if manifest.plan is None else BatchPlan.load(folder, manifest.plan["sha256"])
    return manifest, plan, journal.parse(lines, plan, len(manifest.parts))


def size_problem(folder: Path, shard: journal.ShardRecord) -> str | None:
    """What is wrong with a shard's size, if anything."""
    path = folder / shard.file
    size = path.stat().st_size if path.is_file() else None
    if size == shard.n_bytes:
        return None
    return "is missing" if size is None else f"has {size} of {shard.n_bytes} bytes"

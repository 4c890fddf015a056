"""Several workers, one plan: each captures some batches into a folder of its own, `merge` joins them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from activations_cache.atomic import read_regular
from activations_cache.cache import ActivationsCache
from activations_cache.contents import MEND, Contents
from activations_cache.holdings import Holdings
from activations_cache.journal import ShardRecord
from activations_cache.writer import Writer


def merge(paths: Sequence[str | Path], into: str | Path) -> ActivationsCache:
    """Join caches that were captured by several workers, batch for batch of one plan.

    Every worker makes its cache with the whole plan and captures some of its batches:

        cache = ActivationsCache.create(f"worker-{k}", plan=plan.batches, ...)
        others = [id for n, batch in enumerate(plan.batches) if n % n_workers != k for id in batch]
        for activations in plan.run(done=others):
            cache.append(activations)

    The result is the cache that one worker would have made, in the plan's order. Shards are copied
    and their checksums compared; the workers' folders stay as they are. A merge that was killed
    goes on when it is called again.

    Raises:
        ValueError: a worker's cache that has no plan, differs from the first in fingerprint, spec,
            plan, dtype, compression, width or options, or is damaged; a batch that two of them
            hold, or that none holds; or an `into` that holds something else.
        CacheLockedError: another process writes to `into`.
        OSError: the disk is full; merge again once there is room.
    """
    if not paths:
        raise ValueError("paths: empty; name the workers' cache folders")
    target = Path(into)
    sources = {Path(path).resolve(): Contents.load(Path(path)) for path in paths}
    if len(sources) < len(paths):
        raise ValueError("paths: one of them is named twice; name every worker's folder once")
    if target.resolve() in sources:
        raise ValueError(f"into: {target} is one of the workers' folders; merge into a new folder")
    _check_alike(sources)
    _check_whole(sources)
    if ActivationsCache.exists(target):
        _check_alike({**sources, target: Contents.load(target)})
        writer = Writer(target, Contents.load(target))
        writer.begin()
    else:
        settled = max(sources.values(), key=lambda contents: len(contents.holdings.ids))
        manifest = replace(settled.manifest, plan=None)
        empty = Holdings(len(manifest.parts), (), settled.plan)
        writer = Writer(target, Contents(manifest, settled.plan, empty))
        writer.create()
    try:
        for folder, shard in _in_order(sources):
            _adopt(writer, folder, shard)
    finally:
        writer.abandon()
    return ActivationsCache.open(target)


def _check_alike(caches: Mapping[Path, Contents]) -> None:
    """Raise ValueError naming in what the second of two caches differs from the first."""
    (first, wanted), *others = caches.items()
    if wanted.plan is None:
        raise ValueError(
            f"plan: cache {first} was made without one, so that it cannot be told which batches "
            "are missing; make every worker's cache with the same plan"
        )
    for folder, contents in others:
        contents.check(
            folder, wanted.manifest.fingerprint, wanted.manifest.spec, wanted.plan.batches
        )
        # A worker that had nothing to do has settled nothing.
        settled = ("d_model", "options") if wanted.holdings.ids and contents.holdings.ids else ()
        for field in ("parts", "dtype", "compression", *settled):
            there, here = getattr(contents.manifest, field), getattr(wanted.manifest, field)
            if there != here:
                raise ValueError(
                    f"{field}: cache {folder} has {there}, cache {first} has {here}; "
                    "capture all with the same settings"
                )


def _check_whole(sources: Mapping[Path, Contents]) -> None:
    """Raise ValueError where a batch is held twice, or not at all, in some part."""
    first = next(iter(sources.values()))
    assert first.plan is not None
    for part in range(len(first.manifest.parts)):
        holder: dict[int, Path] = {}
        for folder, contents in sources.items():
            for shard in contents.holdings.shards[part]:
                for batch in shard.batches:
                    if batch in holder:
                        raise ValueError(
                            f"ids: {first.plan.batches[batch][0]!r} (batch {batch}) is in "
                            f"{holder[batch]} and in {folder}; give every batch to one worker"
                        )
                    holder[batch] = folder
        missing = [n for n in range(len(first.plan.batches)) if n not in holder]
        if missing:
            raise ValueError(
                f"ids: {first.plan.batches[missing[0]][0]!r} (batch {missing[0]}) is in none of the "
                f"caches ({len(missing)} of {len(first.plan.batches)} batches are not); capture "
                "them, or name all folders"
            )


def _in_order(sources: Mapping[Path, Contents]) -> list[tuple[Path, ShardRecord]]:
    """All shards, part for part in the order of the plan."""
    shards = [
        (folder, shard)
        for folder, contents in sources.items()
        for part in contents.holdings.shards
        for shard in part
    ]
    return sorted(shards, key=lambda pair: (pair[1].part, pair[1].batches))


def _adopt(writer: Writer, folder: Path, shard: ShardRecord) -> None:
    """Copy a shard under the next name; nothing if a merge that was killed has done so."""
    lacking = writer.contents.holdings.lacking(shard.part, shard.ids)
    if not lacking:
        return
    if len(lacking) < len(shard.ids):
        raise ValueError(
            f"into: {writer.folder} holds some items of {folder / shard.file} and not others; "
            "merge into a new folder"
        )
    data = read_regular(folder / shard.file)
    if hashlib.sha256(data).hexdigest() != shard.sha256:
        raise ValueError(f"shard {folder / shard.file} is damaged (its sha256 differs); {MEND}")
    writer.adopt(shard, data)

"""Setting aside what is damaged, so that the same capture run again brings exactly that back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from activations_cache import journal
from activations_cache.contents import read_folder
from activations_cache.holdings import Holdings
from activations_cache.lock import WriterLock
from activations_cache.names import LOCK_NAME, SHARD_FILE, is_aside
from activations_cache.verify import damages, left_over

DAMAGED = "damaged"
"""The folder, inside the cache's, into which shards are moved."""


@dataclass(frozen=True)
class Repair:
    """What `repair` did."""

    path: Path
    dropped: tuple[str, ...]
    """Shards that were listed and are no longer: damaged or missing."""
    set_aside: tuple[str, ...]
    """Files moved into the folder `damaged/`."""
    removed: tuple[str, ...]
    """Files deleted."""
    n_items: int
    """Items that are still to be captured."""


def repair(path: str | Path, *, delete: bool = False) -> Repair:
    """Set aside what is damaged and remove what a dead writer left, as the one writer.

    Shards that are damaged, or not listed, are moved into the folder `damaged/`, and their items
    are no longer held: capture again with `done=cache.done`, and only these run, in the batches of
    the plan.

    Args:
        path: the cache folder.
        delete: delete shards instead of moving them.

    Raises:
        ValueError: no cache there, another schema version, or a manifest, plan or journal that
            cannot be read.
        CacheLockedError: another process writes to this cache.
        OSError: the folder cannot be written.
    """
    folder = Path(path)
    read_folder(folder)
    lock = WriterLock(folder / LOCK_NAME)
    stale = [LOCK_NAME] if lock.path.exists() else []
    lock.acquire()
    try:
        made, batches, lines = read_folder(folder)
        bad = {problem.file for problem in damages(folder, made, lines)} - {journal.FILE_NAME}
        kept = [shard for shard in lines.shards if shard.file not in bad]
        unlisted = {problem.file for problem in left_over(folder, lines)}
        if lines.torn or lines.damaged or len(kept) < len(lines.shards):
            # The journal first: a crash before the files are moved leaves shards that are not listed.
            journal.rewrite(folder, kept)
        shards = sorted(file for file in bad | unlisted if SHARD_FILE.fullmatch(file))
        aside = [file for file in shards if (folder / file).exists()]
        for file in aside:
            _take_away(folder / file, delete)
        removed = sorted(file for file in unlisted if is_aside(file))
        for file in removed:
            (folder / file).unlink()
        held, before = (
            Holdings(len(made.parts), shards, batches) for shards in (kept, lines.shards)
        )
    finally:
        lock.release()
    wanted = before.ids if batches is None else batches.ids
    return Repair(
        path=folder,
        set_aside=() if delete else tuple(aside),
        removed=(*stale, *removed, *(aside if delete else ())),
        dropped=tuple(sorted(bad)),
        n_items=len(wanted) - len(held.done),
    )


def _take_away(path: Path, delete: bool) -> None:
    if delete:
        path.unlink()
        return
    folder = path.parent / DAMAGED
    folder.mkdir(exist_ok=True)
    target, number = folder / path.name, 1
    while target.exists():
        target, number = folder / f"{path.stem}.{number}{path.suffix}", number + 1
    path.rename(target)

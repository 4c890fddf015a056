"""Setting aside what is damaged, so that the same capture run again brings exactly that back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from activations_cache import journal
from activations_cache.atomic import DamagedFileError
from activations_cache.contents import read_folder
from activations_cache.holdings import Holdings
from activations_cache.journal import SHARD_FILE
from activations_cache.lock import WriterLock
from activations_cache.names import LOCK_NAME, is_aside
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
        delete: delete shards instead of moving them; not where a line of the journal cannot be
            read, for the shard that it listed may be a good one.

    Raises:
        ValueError: no cache there, another schema version, a manifest, plan or journal that cannot
            be read, a manifest that is not that of the shards, or a `damaged/` that leads elsewhere.
        CacheLockedError: another process writes to this cache.
        OSError: the folder cannot be written.
    """
    folder = Path(path)
    read_folder(folder)
    damaged = folder / DAMAGED
    if os.path.lexists(damaged) and (damaged.is_symlink() or not damaged.is_dir()):
        raise ValueError(f"{damaged} is no folder (a link, say); delete it and run again")
    lock = WriterLock(folder / LOCK_NAME)
    stale = [LOCK_NAME] if lock.path.exists() else []
    lock.acquire()
    try:
        made, batches, lines = read_folder(folder)
        found = list(damages(folder, made, lines))
        for problem in found:
            if problem.kind == "unusable":
                raise DamagedFileError(folder / problem.file, problem.what)
        bad = {problem.file for problem in found} - {journal.FILE_NAME}
        kept = [shard for shard in lines.shards if shard.file not in bad]
        unlisted = {problem.file for problem in left_over(folder, lines)}
        if lines.torn or lines.damaged or len(kept) < len(lines.shards):
            # The journal first: a crash before the files are moved leaves shards that are not listed.
            journal.rewrite(folder, kept)
        shards = sorted(file for file in bad | unlisted if SHARD_FILE.fullmatch(file))
        present = [file for file in shards if os.path.lexists(folder / file)]
        deleted, aside = (present, []) if delete and not lines.damaged else ([], present)
        for file in deleted:
            (folder / file).unlink()
        for file in aside:
            _set_aside(folder / file)
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
        set_aside=tuple(aside),
        removed=(*stale, *removed, *deleted),
        dropped=tuple(sorted(bad)),
        n_items=len(wanted) - len(held.done),
    )


def _set_aside(path: Path) -> None:
    folder = path.parent / DAMAGED
    folder.mkdir(exist_ok=True)
    target, number = folder / path.name, 1
    while os.path.lexists(target):
        target, number = folder / f"{path.stem}.{number}{path.suffix}", number + 1
    path.rename(target)

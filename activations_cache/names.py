"""Names of the files in a cache folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from activations_cache import journal, manifest, plan
from activations_cache.atomic import TEMPORARY_SUFFIX
from activations_cache.journal import SHARD_FILE, ShardRecord

LOCK_NAME = "writer.lock"


def shard_name(part: int, number: int) -> str:
    """The file of a part's shard."""
    return f"shard-{part}-{number:06d}.h5"


def is_aside(name: str) -> bool:
    """Whether a file of this name is one that this package was writing when it died."""
    name, suffix = name.removesuffix(TEMPORARY_SUFFIX), name[-len(TEMPORARY_SUFFIX) :]
    ours = name in (manifest.FILE_NAME, plan.FILE_NAME, journal.FILE_NAME)
    return suffix == TEMPORARY_SUFFIX and (ours or bool(SHARD_FILE.fullmatch(name)))


def next_number(shards: Sequence[ShardRecord]) -> int:
    """The number of the shard that a part gets next."""
    names = [SHARD_FILE.fullmatch(shard.file) for shard in shards]
    return max((int(name[2]) + 1 for name in names if name), default=0)


def refuse_folder_in_use(folder: Path) -> None:
    """Raise ValueError where a new cache cannot be made; what a killed `create` left is no hindrance."""
    if (folder / manifest.FILE_NAME).exists():
        raise ValueError(f"path: {folder} holds a cache already; use ActivationsCache.open")
    leftovers = {LOCK_NAME, plan.FILE_NAME, journal.FILE_NAME}
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    if any(name not in leftovers and not is_aside(name) for name in names):
        raise ValueError(f"path: {folder} is not empty; choose a new folder")

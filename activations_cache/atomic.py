"""Replacing a file such that a crash leaves the old one or the new one, never a part."""

from __future__ import annotations

import os
from pathlib import Path

from typing_extensions import Buffer

TEMPORARY_SUFFIX = ".tmp"


class DamagedFileError(ValueError):
    """A file without which a cache cannot be read; `file` is its name."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} {what}; restore it from a copy, or capture into a new folder")
        self.file = path.name
        self.what = what


def replace_file(path: Path, *data: Buffer) -> None:
    """Write `data` aside, one after the other, flush, fsync, rename it to `path`, and fsync the folder.

    Raises OSError where the disk is full or read-only; `path` is then as it was and nothing is left
    aside.
    """
    aside = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with aside.open("wb") as file:
            for piece in data:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder last: without this a power cut may undo it after all."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

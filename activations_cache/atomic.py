"""Replacing a file such that a crash leaves the old one or the new one, never a part."""

from __future__ import annotations

import os
from pathlib import Path

from typing_extensions import Buffer

TEMPORARY_SUFFIX = ".tmp"


def replace_file(path: Path, data: Buffer) -> None:
    """Write `data` aside, flush, fsync, rename it to `path`, and fsync the folder.

    Raises OSError where the disk is full or read-only; `path` is then as it was and nothing is left
    aside.
    """
    aside = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    # The rename lives in the folder: without this a power cut may undo it after the caller was told
    # it is done.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

"""The files that a user asks for are looked at before any work: what stands there must be a file to replace."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def check_output(option: str, path: Path, *, read: Iterable[Path | None] = ()) -> None:
    """Raise ValueError unless a file may be written to `path`.

    Args:
        option: the option that names it, for the message.
        path: need not exist; its folder must.
        read: the files that the command reads, none of which it may write over.
    """
    if path.is_dir():
        raise ValueError(f"{option}: {path} is a folder; give the path of a file")
    if not path.parent.is_dir():
        raise ValueError(f"{option}: no folder {path.parent}; make it first")
    # A device or a pipe would itself be replaced by a file of its name.
    if path.exists() and not path.is_file():
        raise ValueError(f"{option}: {path} is no regular file; give the path of a file")
    for other in read:
        if other is not None and path.exists() and other.exists() and path.samefile(other):
            raise ValueError(f"{option}: {path} is a file that is read; give another path")

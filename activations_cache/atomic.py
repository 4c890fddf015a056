"""Files that others must not lead astray: replaced whole or not at all, and never through a link.

A cache folder may come from a stranger. Nothing outside it is read, written or deleted, so a
symbolic link in the place of one of its files is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from typing_extensions import Buffer

TEMPORARY_SUFFIX = ".tmp"
NOT_REGULAR = "is no regular file (a link, say)"


class DamagedFileError(ValueError):
    """A file without which a cache cannot be read; `file` is its name."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} {what}; restore it from a copy, or capture into a new folder")
        self.file = path.name
        self.what = what


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file as `os.open` does, without following a link; its descriptor.

    Raises DamagedFileError where `path` is a link, a pipe, a device or a folder, or where it is to
    be written in place and has another name elsewhere (a hard link); OSError as `os.open` does.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise DamagedFileError(path, NOT_REGULAR) from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise DamagedFileError(path, NOT_REGULAR)
    if flags & os.O_ACCMODE != os.O_RDONLY and status.st_nlink > 1:
        os.close(descriptor)
        raise DamagedFileError(path, "is the same file as one elsewhere (a hard link)")
    return descriptor


def open_to_read(path: Path) -> BufferedReader:
    """A regular file, opened for reading; raises as `open_regular`."""
    return os.fdopen(open_regular(path), "rb")


def read_regular(path: Path) -> bytes:
    """The bytes of a regular file; raises as `open_regular`."""
    with open_to_read(path) as file:
        return file.read()


def replace_file(path: Path, *data: Buffer) -> None:
    """Write `data` aside, one after the other, flush, fsync, rename it to `path`, and fsync the folder.

    Raises OSError where the disk is full or read-only, or where `path` is a folder, a device or a
    pipe; `path` is then as it was and nothing is left aside.
    """
    _refuse_special(path)
    aside = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        # What lies there may be a link, and what it leads to is not ours to write.
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            for piece in data:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _refuse_special(path: Path) -> None:
    """Raise OSError where `path` is a device, a pipe or a socket: a rename would put a file in its place."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "is no regular file; give another path", str(path))


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder last: without this a power cut may undo it after all."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

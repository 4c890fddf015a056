"""One writer at a time: a file in the cache folder that says which process writes, and since when.

The lock of a process that died is taken over. Whether it died can be told on its own machine alone;
a lock from elsewhere (a shared file system) is refused until someone deletes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from activations_cache.atomic import DamagedFileError, open_regular, read_regular


class CacheLockedError(ValueError):
    """Another process writes to this cache."""


@dataclass(frozen=True)
class Owner:
    """The process that holds a lock.

    `started` tells a process from a later one with the same number, which is common in containers;
    None where the system does not say. `since` is in seconds since the epoch.
    """

    pid: Annotated[int, Field(ge=1, lt=2**31)]
    host: Annotated[str, Field(pattern=r"^[^\x00-\x20\x7f]*$", max_length=255)]
    started: str | None
    since: float

    @classmethod
    def current(cls) -> Owner:
        """This process, from now on."""
        pid = os.getpid()
        return cls(pid, socket.gethostname(), _started(pid), time.time())

    def may_be_alive(self) -> bool:
        """False only if the process is known to be gone."""
        if self.host != socket.gethostname():
            return True
        if self.started is not None:
            return _started(self.pid) == self.started
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


_OWNER = TypeAdapter(Owner)


def owner_of(path: Path) -> Owner | None:
    """Who holds the lock file at `path`; None where there is none, or one cut short by a crash."""
    try:
        return _OWNER.validate_json(read_regular(path), strict=True)
    except (OSError, ValueError):
        return None


class WriterLock:
    """The lock file at `path`, for the process that made this object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner: Owner | None = None

    @property
    def held(self) -> bool:
        """Whether this process holds the lock; a fork of the holder does not."""
        return self._owner is not None and self._owner.pid == os.getpid()

    def acquire(self) -> None:
        """Take the lock, from a dead owner if need be.

        Raises CacheLockedError naming a living owner and since when it holds the lock, ValueError
        where the lock is no regular file, OSError where the folder cannot be written.
        """
        try:
            self._acquire()
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot write to {self.path.parent}: {error.strerror}; make it writable and run "
                "again",
            ) from error
        except DamagedFileError as error:
            raise ValueError(f"{self.path} {error.what}; delete it and run again") from None

    def _acquire(self) -> None:
        with _exclusive(self.path) as descriptor:
            owner = _read_owner(descriptor)
            if owner is not None and owner.may_be_alive():
                raise CacheLockedError(
                    f"cache {self.path.parent} is being written by process {owner.pid} on "
                    f"{owner.host} since {time.time() - owner.since:.0f} s ago; close it there, or "
                    f"delete {self.path} if that process is gone"
                )
            self._owner = Owner.current()
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(asdict(self._owner)).encode(), 0)
            os.fsync(descriptor)

    def release(self) -> None:
        """Give the lock back; does nothing where this process does not hold it."""
        if not self.held:
            return
        with contextlib.suppress(OSError, DamagedFileError), _exclusive(self.path) as descriptor:
            if _read_owner(descriptor) == self._owner:
                self.path.unlink()
        self._owner = None


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[int]:
    """Keep others out while the lock file is read and rewritten: no two take over one lock."""
    while True:
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
        try:
            # Some network file systems refuse; what is lost there is the protection of a takeover,
            # not the lock.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at `path`; its owner deletes it on release."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _read_owner(descriptor: int) -> Owner | None:
    """The recorded owner; None for an empty file, or one cut short by a crash."""
    try:
        return _OWNER.validate_json(os.pread(descriptor, 4096, 0), strict=True)
    except ValueError:
        return None


def _started(pid: int) -> str | None:
    """Clock ticks from boot to the start of a process; None if it is dead or without /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the command name before ")" may hold spaces
    return None if state in "ZX" else fields[18]

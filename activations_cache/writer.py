"""Appending: check a batch against the cache, encode it into a buffer, write a shard when it is full.

A shard is whole appended batches, and its size depends on what was appended alone, so that a
capture that was killed and resumed with the same batches ends with the same shards. A full shard is
written by a thread of its own while the next one is filled: encoding, checksum and disk overlap.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from activations_cache import journal
from activations_cache.atomic import replace_file
from activations_cache.buffer import RowBuffer
from activations_cache.contents import Contents
from activations_cache.fitting import check_ids, settle
from activations_cache.journal import ShardRecord
from activations_cache.lock import CacheLockedError, WriterLock
from activations_cache.manifest import Manifest
from activations_cache.names import (
    LOCK_NAME,
    is_aside,
    next_number,
    refuse_folder_in_use,
    shard_name,
)
from activations_cache.parts import added_parts, resolve, union
from activations_cache.shard import write_shard
from hooks.activations import Activations, CaptureSpec

SHARD_BYTES = 64 * 2**20
"""A shard is written at this size, however few its rows: two are held in memory."""


class Writer:
    """A cache that may be written: its contents, the rows not committed yet, and the lock.

    The lock is taken by `begin`, which the first `append` calls, and given back by `close`.
    """

    def __init__(self, folder: Path, contents: Contents) -> None:
        self.folder = folder
        self.contents = contents
        self._saved: Manifest | None = contents.manifest
        self._buffers: dict[int, RowBuffer] = {}
        self._spare: dict[int, RowBuffer] = {}
        self._full: tuple[int, RowBuffer] | None = None
        self._writing: Future[ShardRecord] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._lock = WriterLock(folder / LOCK_NAME)

    def lock(self) -> None:
        """Become the one writer; CacheLockedError if another one lives."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        # Runs before HDF5's own end, which was registered earlier; a finalizer may run after it.
        atexit.register(self.abandon)

    def _unlock(self) -> None:
        atexit.unregister(self.abandon)
        self._lock.release()

    def create(self) -> None:
        """Make the folder and an empty cache in it, as the one writer.

        Raises ValueError where the folder is not empty or cannot be written.
        """
        refuse_folder_in_use(self.folder)
        try:
            self.lock()
            refuse_folder_in_use(self.folder)
            manifest, plan = self.contents.manifest, self.contents.plan
            if plan is not None:
                manifest = replace(manifest, plan=plan.save(self.folder))
            journal.rewrite(self.folder, ())
            # The manifest last: with it the folder is a cache.
            manifest.save(self.folder)
        except OSError as error:
            self._unlock()
            raise ValueError(
                f"path: cannot write to {self.folder}: {os.strerror(error.errno or 0)}; choose another folder"
            ) from None
        except ValueError:
            self._unlock()
            raise
        self.contents.manifest = self._saved = manifest

    def begin(self) -> None:
        """Become the one writer, see what the last one committed, clear what it left unfinished."""
        if self._lock.held:
            return
        self._refuse_inherited_rows()
        self.lock()
        try:
            self._reload()
            journal.trim(self.folder)
            self._clear_unfinished()
        except (ValueError, OSError):
            self._unlock()
            raise

    def append(self, activations: Activations) -> None:
        """Encode a batch, and write a shard once enough is buffered; see `ActivationsCache.append`."""
        self.begin()
        contents = self.contents
        check_ids(activations.ids, contents.holdings)
        batch = contents.plan.number(activations.ids) if contents.plan else None
        parts = range(len(contents.manifest.parts))
        rows = {part: contents.holdings.lacking(part, activations.ids) for part in parts}
        wanted = [part for part in parts if rows[part] or not activations.ids]
        manifest = settle(contents.manifest, activations, wanted, first=contents.holdings.is_empty)
        if manifest != contents.manifest:
            self._buffers.clear()
        buffers = {part: self._buffer(manifest, part) for part in wanted}
        for part, buffer in buffers.items():
            buffer.stage(activations, rows[part])
        contents.manifest = manifest
        for part, buffer in buffers.items():
            contents.holdings.claim(part, buffer.accept(batch))
            self._buffers[part] = buffer
        for part, buffer in buffers.items():
            if len(buffer.ids) >= manifest.shard_rows or buffer.n_bytes >= SHARD_BYTES:
                self._write_aside(part)

    def extend(self, spec: CaptureSpec) -> None:
        """Add cells; see `ActivationsCache.extend`."""
        self.begin()
        self.commit()
        manifest = self.contents.manifest
        wanted = union([manifest.spec, resolve(spec, manifest.fingerprint)])
        parts: tuple[CaptureSpec, ...]
        if self.contents.holdings.is_empty:
            parts = (wanted,)
        else:
            parts = (*manifest.parts, *added_parts(manifest.spec, wanted))
        if parts == manifest.parts:
            return
        self._buffers.clear()
        self._spare.clear()
        replace(manifest, parts=parts).save(self.folder)
        self._reload()

    def commit(self) -> None:
        """Write the buffered rows as shards and list them.

        Raises OSError where the disk does not take it; the rows stay buffered and the cache is as
        it was.
        """
        self._refuse_inherited_rows()
        self._await()
        for part in sorted(self._buffers):
            if self._buffers[part].ids:
                self._write_aside(part)
        self._await()

    def close(self) -> None:
        """Commit and give the lock back; after an OSError it can be called again."""
        if self._lock.held:
            self.commit()
            self._end()

    def abandon(self) -> None:
        """Commit if the disk takes it, and give the lock back in any case; no-op once closed."""
        if not self._lock.held:
            return
        try:
            self.commit()
        except OSError:
            self._full = None
            self._buffers.clear()
            with contextlib.suppress(ValueError, OSError):
                self._reload()
        finally:
            self._end()

    def adopt(self, shard: ShardRecord, data: bytes) -> None:
        """Add a shard of another cache, whose file is `data`, under this cache's next name."""
        name = shard_name(shard.part, next_number(self.contents.holdings.shards[shard.part]))
        replace_file(self.folder / name, data)
        adopted = replace(shard, file=name)
        journal.append(self.folder, adopted)
        self.contents.holdings.add(adopted)

    def _reload(self) -> None:
        self.contents = Contents.load(self.folder)
        self._saved = self.contents.manifest

    def _end(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None
        self._spare.clear()
        self._unlock()

    def _refuse_inherited_rows(self) -> None:
        pending = self._full or any(buffer.ids for buffer in self._buffers.values())
        if pending and not self._lock.held:
            raise CacheLockedError(
                f"cache {self.folder}: process {os.getpid()} inherited rows not yet committed; "
                "call flush() before a fork"
            )

    def _buffer(self, manifest: Manifest, part: int) -> RowBuffer:
        if part in self._buffers:
            return self._buffers[part]
        if part in self._spare:
            return self._spare.pop(part)
        options = (manifest.options or ()) if part == 0 else ()
        return RowBuffer(manifest.parts[part], manifest.dtype, manifest.d_model or 0, options)

    def _write_aside(self, part: int) -> None:
        """Have a buffer written, once the one before is on disk."""
        self._await()
        self._full = part, self._buffers.pop(part)
        self._start()

    def _start(self) -> None:
        """Have the full buffer written by a thread: a Ctrl-C then never comes between shard and journal."""
        assert self._full is not None
        if self._pool is None:
            # One thread for the disk, one for the checksum.
            self._pool = ThreadPoolExecutor(2, thread_name_prefix="activations-cache")
        try:
            self._writing = self._pool.submit(self._write, *self._full, self._pool)
        except RuntimeError:
            # The interpreter is ending, and starts no more work in threads.
            self._writing = None

    def _await(self) -> None:
        """Return when the full buffer is on disk and counted."""
        if self._full is None:
            return
        part, buffer = self._full
        if self._writing is None:
            self._start()
        try:
            shard = self._writing.result() if self._writing else self._write(part, buffer, None)
        except OSError as error:
            self._writing = None
            raise OSError(
                error.errno,
                f"cannot write to {self.folder}: {error.strerror}; "
                f"{self.contents.holdings.n_committed} committed items are safe, make room and run "
                "again",
            ) from error
        self._writing = self._full = None
        self.contents.holdings.add(shard)
        buffer.clear()
        self._spare[part] = buffer

    def _write(self, part: int, buffer: RowBuffer, pool: ThreadPoolExecutor | None) -> ShardRecord:
        """Write a shard and list it. Runs in a thread: nothing of the cache is changed in memory."""
        manifest = self.contents.manifest
        self._save_manifest()
        name = shard_name(part, next_number(self.contents.holdings.shards[part]))
        size, sha256, offsets = write_shard(
            self.folder / name,
            buffer.ids,
            buffer.sites(),
            buffer.option_logprobs(),
            part=buffer.part,
            dtype=manifest.dtype,
            compression=manifest.compression,
            pool=pool,
        )
        shard = ShardRecord(
            name, part, size, sha256, offsets, tuple(buffer.ids), tuple(buffer.batches)
        )
        journal.append(self.folder, shard)
        return shard

    def _save_manifest(self) -> None:
        manifest = self.contents.manifest
        if manifest != self._saved:
            manifest.save(self.folder)
            self._saved = manifest

    def _clear_unfinished(self) -> None:
        """Delete what a dead writer was writing: files aside, and the shard that comes next."""
        next_ones = {
            shard_name(part, next_number(shards))
            for part, shards in enumerate(self.contents.holdings.shards)
        }
        for path in self.folder.iterdir():
            if path.name in next_ones or is_aside(path.name):
                path.unlink()

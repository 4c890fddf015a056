"""Appending: check a batch against the cache, buffer it encoded, write a shard when it is full.

A shard is whole appended batches, and its size depends on what was appended alone, so that a
capture that was killed and resumed with the same batches ends with the same shards.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from activations_cache.atomic import TEMPORARY_SUFFIX
from activations_cache.encoding import StorageDType, decode, encode, is_finite
from activations_cache.lock import CacheLockedError, WriterLock
from activations_cache.manifest import FILE_NAME, Manifest
from activations_cache.shard import Block, write_shard
from hooks.activations import LAYERLESS_SITES, Activations

LOCK_NAME = "writer.lock"
SHARD_BYTES = 128 * 2**20
"""A shard is written at this size, however few its rows: it is held in memory twice."""

_SHARD_NAME = "shard-{:06d}.h5"
_OURS = re.compile(rf"(shard-\d{{6}}\.h5|{re.escape(FILE_NAME)})({re.escape(TEMPORARY_SUFFIX)})?")

_NOT_FINITE = "is not a finite number; run the model in bfloat16 or float32, not float16"


class NonFiniteError(ValueError):
    """An activation is an infinity or a NaN, or would become one when stored."""


class Writer:
    """A cache that may be written: its manifest, the rows not committed yet, and the lock.

    The lock is taken by `begin`, which the first `append` calls, and given back by `close`.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.blocks: list[Block] = []
        self._lock = WriterLock(folder / LOCK_NAME)
        self._known: set[str] = set()

    @property
    def ids(self) -> tuple[str, ...]:
        """Committed and buffered ids, in storage order."""
        return self.manifest.ids + tuple(item for block in self.blocks for item in block.ids)

    def lock(self) -> None:
        """Become the one writer; CacheLockedError if another one lives."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()

    def begin(self) -> None:
        """Become the one writer, see what the last one committed, clear what it left unfinished."""
        self.lock()
        try:
            self.manifest = Manifest.load(self.folder)
        except ValueError:
            self._lock.release()
            raise
        self._known = set(self.manifest.ids)
        committed = {FILE_NAME, *(shard.file for shard in self.manifest.shards)}
        for path in self.folder.iterdir():
            if _OURS.fullmatch(path.name) and path.name not in committed:
                path.unlink()

    def append(self, activations: Activations) -> None:
        """Buffer a batch, and commit once enough is buffered; see `ActivationsCache.append`."""
        if not self._lock.held:
            self.begin()
        self._check_ids(activations.ids)
        manifest = _settle(self.manifest, activations)
        block = _encode_block(activations, manifest.dtype)
        self.manifest = manifest
        self.blocks.append(block)
        self._known.update(block.ids)
        n_rows = sum(len(block.ids) for block in self.blocks)
        n_bytes = sum(block.bytes for block in self.blocks)
        if n_rows >= manifest.shard_rows or n_bytes >= SHARD_BYTES:
            self.commit()

    def commit(self) -> None:
        """Write the buffered rows as a shard, then list it in the manifest.

        Raises OSError where the disk does not take it; the rows stay buffered and the cache is as
        it was.
        """
        if not any(block.ids for block in self.blocks):
            return
        if not self._lock.held:
            raise CacheLockedError(
                f"cache {self.folder}: process {os.getpid()} inherited rows not yet committed; "
                "call flush() before a fork"
            )
        path = self.folder / _SHARD_NAME.format(len(self.manifest.shards))
        try:
            manifest = self.manifest.with_shard(write_shard(path, self.blocks, self.manifest.dtype))
            manifest.save(self.folder)
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot write {path}: {error.strerror}; {len(self.manifest.ids)} committed items "
                "are safe, make room and run again",
            ) from error
        self.manifest = manifest
        self.blocks.clear()

    def close(self) -> None:
        """Commit and give the lock back; after an OSError it can be called again."""
        if self._lock.held:
            self.commit()
            self._lock.release()

    def abandon(self) -> None:
        """Commit if the disk takes it, and give the lock back in any case; no-op once closed."""
        if self._lock.held:
            with contextlib.suppress(OSError):
                self.commit()
            self.blocks.clear()
            self._lock.release()

    def _check_ids(self, ids: tuple[str, ...]) -> None:
        repeated = [item for item, count in Counter(ids).items() if count > 1]
        if repeated:
            raise ValueError(f"ids: {repeated[0]!r} comes twice in one batch; ids are unique")
        for item in ids:
            if item in self._known:
                raise ValueError(
                    f"ids: {item!r} is in the cache already; to resume, capture the same prompts "
                    "with done=cache.ids"
                )


def _settle(manifest: Manifest, activations: Activations) -> Manifest:
    """Check the layout of a batch; the first one settles what the manifest leaves open.

    Raises ValueError naming the field in which the batch differs from the cache.
    """
    spec = manifest.spec
    if spec.layers == "all":
        spec = replace(spec, layers=activations.layers)
    widths = {int(states.shape[-1]) for states in activations.sites.values()}
    options = tuple(sorted(activations.option_logprobs))
    first = manifest.d_model is None
    for field, found, wanted in (
        ("sites", sorted(activations.sites), sorted(spec.sites)),
        ("layers", list(activations.layers), list(spec.layers)),
        ("positions", list(activations.positions), list(spec.positions)),
        ("d_model", sorted(widths), [min(widths) if first else manifest.d_model]),
        ("option_logprobs", options, options if first else manifest.options),
    ):
        if found != wanted:
            raise ValueError(
                f"{field}: the cache holds {wanted}, this batch has {found}; capture with the "
                "cache's spec, or into a new cache"
            )
    return replace(manifest, spec=spec, d_model=min(widths), options=options)


def _encode_block(activations: Activations, dtype: StorageDType) -> Block:
    sites = {}
    for site, states in activations.sites.items():
        sites[site] = encode(states, dtype)
        if not is_finite(sites[site]):
            raise NonFiniteError(_describe_non_finite(activations, site, sites[site]))
    options = {}
    for name, values in sorted(activations.option_logprobs.items()):
        options[name] = encode(values, "float32")
        if not is_finite(options[name]):
            row = int(np.flatnonzero(~np.isfinite(options[name]))[0])
            raise NonFiniteError(
                f"item {activations.ids[row]!r}, option_logprobs {name!r}: {options[name][row]} "
                f"{_NOT_FINITE}"
            )
    return Block(activations.ids, sites, options)


def _describe_non_finite(
    activations: Activations, site: str, stored: Shaped[np.ndarray, "item layer position d_model"]
) -> str:
    row, layer, position, unit = np.argwhere(~np.isfinite(decode(stored)))[0]
    value = float(activations.sites[site][row, layer, position, unit])
    place = "" if site in LAYERLESS_SITES else f", layer {activations.layers[layer]}"
    advice = (
        'is too large for bfloat16; make the cache with dtype="float32"'
        if np.isfinite(value)
        else _NOT_FINITE
    )
    return (
        f"item {activations.ids[row]!r}, site {site}{place}, position "
        f"{activations.positions[position]}: {value} in dimension {unit} {advice}"
    )

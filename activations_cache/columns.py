"""Reading rows out of one shard: by their place in the file, or through HDF5 where compressed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
from jaxtyping import Float32, Shaped

from activations_cache.atomic import open_regular
from activations_cache.compression import require_hdf5plugin
from activations_cache.encoding import FORMATS
from activations_cache.journal import ShardRecord
from activations_cache.manifest import Manifest
from activations_cache.parts import Cell, layers_of
from activations_cache.shard import dataset_in, open_shard
from hooks.activations import CaptureSpec

Stored = Shaped[np.ndarray, "row d_model"]


class Columns(Protocol):
    """The rows of an open shard."""

    def rows(self, cell: Cell, start: int, stop: int) -> Stored:
        """Stored numbers of the rows `start` to `stop` of a cell.

        The array is the reader's own: the next call overwrites it.
        """
        ...


class _Plain:
    """Reads at known offsets, into one small buffer that stays in the processor's cache."""

    def __init__(
        self, descriptor: int, shard: ShardRecord, part: CaptureSpec, buffer: Stored
    ) -> None:
        self._descriptor = descriptor
        self._shard = shard
        self._part = part
        self._buffer = buffer

    def rows(self, cell: Cell, start: int, stop: int) -> Stored:
        assert self._shard.offsets is not None
        layer, position = axis_index(self._part, cell)
        n_items, d_model = self._buffer.shape
        row = (layer * len(self._part.positions) + position) * n_items + start
        place = self._shard.offsets[cell[0]] + row * d_model * self._buffer.itemsize
        rows = self._buffer[: stop - start]
        if os.preadv(self._descriptor, [rows.data], place) != rows.nbytes:
            raise OSError("it ends too early")
        return rows


class _Compressed:
    """Reads through HDF5."""

    def __init__(
        self, file: h5py.File, part: CaptureSpec, shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> None:
        self._file = file
        self._part = part
        self._shape = shape
        self._dtype = dtype

    def rows(self, cell: Cell, start: int, stop: int) -> Stored:
        layer, position = axis_index(self._part, cell)
        shape = (len(layers_of(self._part, cell[0])), len(self._part.positions), *self._shape)
        stored = dataset_in(self._file, f"activations/{cell[0]}", shape, self._dtype)
        rows: Stored = stored[layer, position, start:stop]
        return rows


@contextmanager
def open_columns(folder: Path, manifest: Manifest, shard: ShardRecord) -> Iterator[Columns]:
    """The rows of a shard; OSError or KeyError where the file is missing or damaged."""
    path, part = folder / shard.file, manifest.parts[shard.part]
    shape, dtype = (len(shard.ids), manifest.d_model or 0), FORMATS[manifest.dtype].stored
    if shard.offsets is None:
        require_hdf5plugin()
        with open_shard(path) as file:
            yield _Compressed(file, part, shape, dtype)
        return
    buffer = np.empty(shape, dtype=dtype)
    descriptor = open_regular(path)
    try:
        size = os.fstat(descriptor).st_size
        if size != shard.n_bytes:
            raise OSError(f"it has {size} of {shard.n_bytes} bytes")
        yield _Plain(descriptor, shard, part, buffer)
    finally:
        os.close(descriptor)


def read_option(
    folder: Path, manifest: Manifest, shard: ShardRecord, option: int
) -> Float32[np.ndarray, "item"]:
    """The option at an index, all rows; OSError or KeyError where the file is missing or damaged."""
    shape = (len(shard.ids), len(manifest.options or ()))
    with open_shard(folder / shard.file) as file:
        table = dataset_in(file, "option_logprobs", shape, np.dtype("<f4"))
        values: Float32[np.ndarray, "item"] = table[:, option]
    return values


def axis_index(part: CaptureSpec, cell: Cell) -> tuple[int, int]:
    """Where a cell of the part lies along the layer and position axes."""
    site, layer, position = cell
    return layers_of(part, site).index(layer), part.positions.index(position)

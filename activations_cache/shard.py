"""A shard: one HDF5 file with rows of whole batches, never changed once it is written.

    /ids                 [item]                             UTF-8 strings
    /activations/SITE    [layer, position, item, d_model]   float32, float16, or bfloat16 bits as
                                                            uint16 (attribute dtype says which)
    /option_logprobs     [item, option]                     float32, attribute names; optional

The attributes layers and positions of the file say what lies along those two axes.

All items of one layer and position are one stretch of bytes: what a probe reads, and reading it
touches nothing else. The stretches are not chunks, so their place in the file is known (`offsets`)
and is read without HDF5, whose opening of a file costs more than the numbers do. A compressed shard
has a chunk a stretch instead.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Float32, Shaped
from typing_extensions import Buffer

from activations_cache.atomic import open_to_read, replace_file
from activations_cache.compression import Compression, filter_of
from activations_cache.encoding import FORMATS, StorageDType
from hooks.activations import CaptureSpec

SiteRows = Shaped[np.ndarray, "layer position item d_model"]

_ALIGNMENT = 4096
"""The numbers of a site, if so many bytes, begin at a multiple of it: a program may map them into memory."""


def write_shard(
    path: Path,
    ids: Sequence[str],
    sites: Mapping[str, SiteRows],
    option_logprobs: Mapping[str, Float32[np.ndarray, "item"]],
    *,
    part: CaptureSpec,
    dtype: StorageDType,
    compression: Compression | None,
    pool: Executor | None,
) -> tuple[int, str, dict[str, int] | None]:
    """Write rows as one shard at `path`; size in bytes, sha256, and where each site's numbers begin.

    `sites` are stored bits, of which each layer and position must be contiguous. The checksum is
    computed in `pool` while the disk works, or afterwards without one. OSError where the disk is
    full.
    """
    # HDF5 may hang or crash when its disk fills up, so it writes to memory and plain Python to the
    # disk.
    if compression is None:
        pieces, offsets = _lay_out(ids, sites, option_logprobs, part, dtype)
    else:
        pieces, offsets = [_compress(ids, sites, option_logprobs, part, dtype, compression)], None
    try:
        digest = pool.submit(_sha256, pieces) if pool else None
    except RuntimeError:
        digest = None  # the interpreter is ending, and starts no more work in threads
    try:
        replace_file(path, *pieces)
    finally:
        # The buffers are the caller's again when this returns or raises.
        sha256 = digest.result() if digest else _sha256(pieces)
    return sum(memoryview(piece).nbytes for piece in pieces), sha256, offsets


def _sha256(pieces: Sequence[Buffer]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _lay_out(
    ids: Sequence[str],
    sites: Mapping[str, SiteRows],
    option_logprobs: Mapping[str, Float32[np.ndarray, "item"]],
    part: CaptureSpec,
    dtype: StorageDType,
) -> tuple[list[Buffer], dict[str, int]]:
    """The file as pieces in order: what HDF5 writes, and between it the numbers where they are.

    HDF5 is told to leave room for the numbers and is not given them: they are copied once, by the
    kernel.
    """
    image = _SparseFile()
    offsets = {}
    with h5py.File(
        image, "w", alignment_threshold=_ALIGNMENT, alignment_interval=_ALIGNMENT
    ) as file:
        _add_rows(file, ids, option_logprobs, part)
        group = file.create_group("activations")
        for site, rows in sites.items():
            layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            layout.set_layout(h5py.h5d.CONTIGUOUS)
            layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            layout.set_obj_track_times(False)  # the same rows are the same bytes, whenever written
            dataset = h5py.h5d.create(
                group.id,
                site.encode(),
                h5py.h5t.py_create(FORMATS[dtype].stored),
                h5py.h5s.create_simple(rows.shape),
                layout,
            )
            h5py.Dataset(dataset).attrs["dtype"] = dtype
            offsets[site] = int(dataset.get_offset())
    pieces: list[Buffer] = []
    end = 0
    for site, offset in sorted(offsets.items(), key=lambda pair: pair[1]):
        rows = sites[site]
        pieces.append(image.between(end, offset))
        pieces.extend(rows[at].data for at in np.ndindex(rows.shape[:2]))
        end = offset + rows.nbytes
    pieces.append(image.between(end, image.size))
    return pieces, offsets


def _compress(
    ids: Sequence[str],
    sites: Mapping[str, SiteRows],
    option_logprobs: Mapping[str, Float32[np.ndarray, "item"]],
    part: CaptureSpec,
    dtype: StorageDType,
    compression: Compression,
) -> Buffer:
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        _add_rows(file, ids, option_logprobs, part)
        for site, rows in sites.items():
            dataset = file.create_dataset(
                f"activations/{site}",
                data=rows.view(FORMATS[dtype].stored),
                chunks=(1, 1, *rows.shape[2:]),
                **filter_of(compression),
            )
            dataset.attrs["dtype"] = dtype
    return image.getbuffer()


def _add_rows(
    file: h5py.File,
    ids: Sequence[str],
    option_logprobs: Mapping[str, Float32[np.ndarray, "item"]],
    part: CaptureSpec,
) -> None:
    file.attrs["layers"] = list(part.layers)
    file.attrs["positions"] = list(part.positions)
    file.create_dataset("ids", data=list(ids), dtype=h5py.string_dtype("utf-8"))
    if option_logprobs:
        table = np.stack(list(option_logprobs.values()), axis=1)
        file.create_dataset("option_logprobs", data=table).attrs["names"] = list(option_logprobs)


class _SparseFile:
    """A file in memory that holds what was written and no gaps: what h5py needs to write one."""

    def __init__(self) -> None:
        self.size = 0
        self._at = 0
        self._written: list[tuple[int, bytes]] = []

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def write(self, data: Buffer) -> int:
        self._written.append((self._at, bytes(data)))
        self._at += len(self._written[-1][1])
        self.size = max(self.size, self._at)
        return len(self._written[-1][1])

    def read(self, size: int) -> bytes:
        self._at += size
        return self.between(self._at - size, self._at)

    def truncate(self, size: int) -> int:
        self.size = size
        return size

    def flush(self) -> None:
        pass

    def between(self, start: int, end: int) -> bytes:
        """These bytes, zero where nothing was written; a later write wins."""
        result = bytearray(end - start)
        for offset, data in self._written:
            first, last = max(offset, start), min(offset + len(data), end)
            if first < last:
                result[first - start : last - start] = data[first - offset : last - offset]
        return bytes(result)


UNREADABLE = (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError)
"""What h5py raises for a file that is not as it should be."""


@contextmanager
def open_shard(path: Path) -> Iterator[h5py.File]:
    """A shard, opened for reading through HDF5; raises one of UNREADABLE."""
    with open_to_read(path) as file, h5py.File(file, "r") as shard:
        yield shard


def object_in(shard: h5py.File, name: str) -> Any:
    """A group or dataset of an open shard; KeyError where there is none, OSError where it is a link."""
    steps = name.split("/")
    for end in range(1, len(steps) + 1):
        step = "/".join(steps[:end])
        link = shard.get(step, getlink=True)
        if link is None:
            raise KeyError(f"it has no {step}")
        if not isinstance(link, h5py.HardLink):
            raise OSError(f"{step} is a link")
    return shard[name]


def dataset_in(
    shard: h5py.File,
    name: str,
    shape: tuple[int, ...] | None = None,
    dtype: np.dtype[Any] | None = None,
) -> h5py.Dataset:
    """A dataset of an open shard whose numbers lie in the shard itself.

    Raises KeyError where there is none, OSError where HDF5 would read them from another file, or
    where shape or dtype, if given, are others.
    """
    dataset = object_in(shard, name)
    if not isinstance(dataset, h5py.Dataset):
        raise KeyError(f"{name} is no dataset")
    if dataset.external or dataset.is_virtual:
        raise OSError(f"{name} lies in another file")
    if shape is not None and dataset.shape != shape:
        raise OSError(f"{name} has the shape {dataset.shape}, not {shape}")
    if dtype is not None and dataset.dtype != dtype:
        raise OSError(f"{name} holds {dataset.dtype}, not {dtype}")
    return dataset

"""A shard: one HDF5 file with the rows of whole batches, never changed once it is written.

    /ids                 [item]                             UTF-8 strings
    /activations/SITE    [item, layer, position, d_model]   float32, or bfloat16 bits as uint16
                                                            (attribute dtype says which)
    /option_logprobs     [item, option]                     float32, attribute names; optional

A chunk holds all items of one layer and position, `(item, 1, 1, d_model)`: what a probe reads is
one contiguous stretch of each shard, and reading it touches nothing else.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Float32, Int, Shaped

from activations_cache.atomic import replace_file
from activations_cache.encoding import StorageDType, decode
from activations_cache.manifest import ShardRecord


@dataclass(frozen=True)
class Block:
    """Encoded rows: item ids, stored bits by site, option log-probabilities by name."""

    ids: tuple[str, ...]
    sites: Mapping[str, Shaped[np.ndarray, "item layer position d_model"]]
    option_logprobs: Mapping[str, Float32[np.ndarray, "item"]]

    @property
    def bytes(self) -> int:
        """Size of the stored activations."""
        return sum(array.nbytes for array in self.sites.values())


def write_shard(path: Path, blocks: Sequence[Block], dtype: StorageDType) -> ShardRecord:
    """Write blocks of equal layout as one shard at `path`; OSError where the disk is full."""
    # HDF5 may hang or crash when its disk fills up, so it writes to memory and plain Python to the
    # disk.
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        _fill(file, blocks, dtype)
    with image.getbuffer() as data:
        replace_file(path, data)
        ids = tuple(item for block in blocks for item in block.ids)
        return ShardRecord(path.name, data.nbytes, hashlib.sha256(data).hexdigest(), ids)


def _fill(file: h5py.File, blocks: Sequence[Block], dtype: StorageDType) -> None:
    ids = [item for block in blocks for item in block.ids]
    file.create_dataset("ids", data=ids, dtype=h5py.string_dtype("utf-8"))
    for site, first in blocks[0].sites.items():
        _, n_layers, n_positions, d_model = first.shape
        stored = file.create_dataset(
            f"activations/{site}",
            shape=(len(ids), n_layers, n_positions, d_model),
            dtype=first.dtype,
            chunks=(len(ids), 1, 1, d_model),
        )
        stored.attrs["dtype"] = dtype
        for layer, position in np.ndindex(n_layers, n_positions):
            stored[:, layer, position] = np.concatenate(
                [block.sites[site][:, layer, position] for block in blocks]
            )
    if names := list(blocks[0].option_logprobs):
        table = [
            np.concatenate([block.option_logprobs[name] for block in blocks]) for name in names
        ]
        options = file.create_dataset("option_logprobs", data=np.stack(table, axis=1))
        options.attrs["names"] = names


def read_rows(
    path: Path, site: str, layer: int, position: int, rows: Int[np.ndarray, "row"]
) -> Float32[np.ndarray, "row d_model"]:
    """Rows of the column at indices `layer` and `position`; OSError if the file is damaged."""
    with h5py.File(path, "r") as file:
        column: Shaped[np.ndarray, "item d_model"] = file[f"activations/{site}"][:, layer, position]
    return decode(column[rows])


def read_option(
    path: Path, option: int, rows: Int[np.ndarray, "row"]
) -> Float32[np.ndarray, "row"]:
    """Rows of the option at index `option`; OSError if the file is damaged."""
    with h5py.File(path, "r") as file:
        values: Float32[np.ndarray, "item"] = file["option_logprobs"][:, option]
    chosen: Float32[np.ndarray, "row"] = values[rows]
    return chosen

"""Compressed shards, through the optional package hdf5plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Compression = Literal["zstd", "lz4"]
COMPRESSIONS: tuple[Compression, ...] = ("zstd", "lz4")


def require_hdf5plugin() -> Any:
    """The package hdf5plugin: importing it teaches HDF5 its filters.

    Raises ImportError with what to install.
    """
    try:
        import hdf5plugin
    except ImportError:
        raise ImportError(
            "compression: a compressed cache needs the package hdf5plugin; "
            "pip install 'selfprobe[compression]'"
        ) from None
    return hdf5plugin


def filter_of(compression: Compression) -> Mapping[str, Any]:
    """What `h5py.create_dataset` takes for a compression, bits shuffled before they are compressed.

    The exponents of neighboring activations are alike, their mantissas are not: without the shuffle
    nothing is saved.
    """
    return dict(require_hdf5plugin().Bitshuffle(cname=compression))

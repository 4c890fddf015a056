"""Numbers as they are stored: float32, float16, or the bits of bfloat16 (unknown to HDF5) as uint16."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Shaped
from torch import Tensor

StorageDType = Literal["bfloat16", "float32", "float16"]


class Format(NamedTuple):
    """A storage dtype: as torch computes it, as HDF5 holds it, and its bits as integers."""

    values: torch.dtype
    stored: np.dtype[Any]
    bits: np.dtype[Any]
    infinity: int
    """The bits of infinity: the least of those, by size, that are not a finite number."""


FORMATS: dict[str, Format] = {
    "bfloat16": Format(torch.bfloat16, np.dtype("<u2"), np.dtype(np.int16), 0x7F80),
    "float32": Format(torch.float32, np.dtype("<f4"), np.dtype(np.int32), 0x7F800000),
    "float16": Format(torch.float16, np.dtype("<f2"), np.dtype(np.int16), 0x7C00),
}
STORAGE_DTYPES = tuple(FORMATS)


def as_bits(values: Shaped[Tensor, "*shape"], dtype: StorageDType) -> Shaped[np.ndarray, "*shape"]:
    """The same memory as signed integers: numpy knows no bfloat16."""
    integers = torch.int32 if FORMATS[dtype].bits.itemsize == 4 else torch.int16
    return values.view(integers).numpy()


def is_finite(bits: Shaped[np.ndarray, "*shape"], dtype: StorageDType) -> bool:
    """Whether no value is an infinity or a NaN, given its bits as signed integers.

    The size of a number grows with its bits, sign apart. Read as signed integers the largest bits
    are those of the largest positive number; read as unsigned, of the largest negative one. Two
    reductions, and no array is made.
    """
    if not bits.size:
        return True
    unsigned = bits.view(f"u{bits.itemsize}")
    infinity = FORMATS[dtype].infinity
    sign = 1 << (8 * bits.itemsize - 1)
    return bool(bits.max() < infinity and unsigned.max() < sign + infinity)


def decode_into(
    result: Float32[np.ndarray, "*shape"],
    stored: Shaped[np.ndarray, "*shape"],
    dtype: StorageDType,
) -> None:
    """Write the float32 values of stored numbers into `result`; exact."""
    format = FORMATS[dtype]
    values = torch.from_numpy(stored.view(format.bits)).view(format.values)
    torch.from_numpy(result).copy_(values)

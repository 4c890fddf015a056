"""Numbers as they are stored: float32, or the bits of bfloat16 (unknown to HDF5) as uint16."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float32, Shaped
from torch import Tensor

StorageDType = Literal["bfloat16", "float32"]
STORAGE_DTYPES: tuple[StorageDType, ...] = ("bfloat16", "float32")


def encode(values: Float32[Tensor, "*shape"], dtype: StorageDType) -> Shaped[np.ndarray, "*shape"]:
    """Round to nearest even and return the stored bits, uint16 or float32; always a copy.

    A copy, because a view of one position would keep the whole layer output that it came from in
    memory.
    """
    if dtype == "float32":
        return np.array(values.numpy(), dtype=np.float32, copy=True)
    bits = values.to(torch.bfloat16).contiguous().view(torch.int16).numpy()
    return bits.view(np.uint16)


def decode(stored: Shaped[np.ndarray, "*shape"]) -> Float32[np.ndarray, "*shape"]:
    """The float32 values of stored bits; exact, since bfloat16 is the upper half of a float32."""
    if stored.dtype == np.uint16:
        upper_halves: Shaped[np.ndarray, "*shape"] = np.left_shift(stored, 16, dtype=np.uint32)
        return upper_halves.view(np.float32)
    return stored.astype(np.float32, copy=False)


def is_finite(stored: Shaped[np.ndarray, "*shape"]) -> bool:
    """Whether no stored value is an infinity or a NaN."""
    if stored.dtype == np.uint16:
        # An exponent of ones is what infinities and NaNs have in common.
        return not bool(((stored & 0x7F80) == 0x7F80).any())
    return bool(np.isfinite(stored).all())

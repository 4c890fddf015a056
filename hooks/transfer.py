"""Bringing a batch's states from the device to the host, one copy a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

Key = TypeVar("Key")


def to_host(tensors: Mapping[Key, Tensor]) -> Callable[[], dict[Key, Tensor]]:
    """Begin to copy tensors to the CPU, and return what waits for the copy and gives them.

    On a GPU all of them travel as one asynchronous copy into pinned memory; the event that was recorded behind it
    must have come before anybody reads.

    Args:
        tensors: float32, on one device, made on its current stream.
    """
    if all(tensor.device.type != "cuda" for tensor in tensors.values()):
        return lambda: {key: tensor.cpu() for key, tensor in tensors.items()}
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors.values()])
    host = torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True)
    host.copy_(flat, non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record(torch.cuda.current_stream(flat.device))
    shapes = {key: tensor.shape for key, tensor in tensors.items()}

    def wait() -> dict[Key, Tensor]:
        copied.synchronize()
        parts = torch.split(host, [shape.numel() for shape in shapes.values()])
        # Cloned, so that pinned memory is given back and no tensor keeps the others alive.
        return {
            key: part.view(shape).clone()
            for (key, shape), part in zip(shapes.items(), parts, strict=True)
        }

    return wait

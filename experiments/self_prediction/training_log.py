"""The numbers of a training, a line a step: JSON Lines, and TensorBoard where it is asked for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.records import append_rows, json_number, read_whole_rows, write_rows

_FLUSHED_EVERY = 1.0
"""Seconds: a flush takes milliseconds, and a step of a head less than one."""


class TrainingLog:
    """Writes `metrics.jsonl` and, if asked, `tensorboard/` in a folder.

    Args:
        folder: that is there; None writes nothing.
        done: steps after which it goes on: what stands there of later ones was lost with a killed process.
        tensorboard: whether TensorBoard's files are written beside.

    Raises:
        ValueError: TensorBoard is wanted and not installed, or there is no folder for it.
    """

    def __init__(self, folder: Path | None, done: int, *, tensorboard: bool) -> None:
        self._path = None if folder is None else folder / "metrics.jsonl"
        self._waiting: list[dict[str, Any]] = []
        self._flushed = time.monotonic()
        self._board = _board(folder, done) if tensorboard else None
        if self._path is not None:
            rows = read_whole_rows(self._path) if done else []
            write_rows(self._path, [row for row in rows if row["step"] <= done])

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write numbers of a step; the first is 1, and 0 is before it."""
        self._waiting.append(
            {"step": step, **{name: json_number(value) for name, value in numbers.items()}}
        )
        if self._board is not None:
            for name, value in numbers.items():
                self._board.add_scalar(name, value, step)
        if time.monotonic() - self._flushed > _FLUSHED_EVERY:
            self.flush()

    def flush(self) -> None:
        """Bring everything to the disk."""
        if self._path is not None and self._waiting:
            append_rows(self._path, self._waiting)
        self._waiting.clear()
        self._flushed = time.monotonic()
        if self._board is not None:
            self._board.flush()


def check_tensorboard(folder: Path | None) -> None:
    """Raise ValueError where TensorBoard cannot be written to, before any work."""
    if folder is None:
        raise ValueError("tensorboard: there is no folder to write to; give one")
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise ValueError(
            "tensorboard: is not installed; run `pip install 'selfprobe[tensorboard]'`"
        ) from None


def _board(folder: Path | None, done: int) -> Any:
    check_tensorboard(folder)
    from torch.utils.tensorboard import SummaryWriter

    assert folder is not None
    writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=done + 1)
    return writer

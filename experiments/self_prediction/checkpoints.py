"""Checkpoints of a training: one safetensors file, replaced whole or not at all.

The numbers and settings stand as JSON in its header, so that no kill can leave tensors of one step beside numbers of
another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from activations_cache import replace_file

_HEADER = "selfprobe"


@dataclass(frozen=True)
class Checkpoint:
    """What is kept: tensors by name, and numbers and settings as JSON has them."""

    tensors: Mapping[str, Tensor]
    about: Mapping[str, Any]

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors of one part, by the names that they have in it."""
        prefix = f"{name}/"
        return {
            key.removeprefix(prefix): value
            for key, value in self.tensors.items()
            if key.startswith(prefix)
        }


def parted(**parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of several parts under names that keep them apart."""
    return {f"{part}/{name}": value for part, own in parts.items() for name, value in own.items()}


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint at `path`.

    Raises:
        OSError: it cannot be written; the one that was there is as it was.
    """
    tensors = {
        name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()
    }
    header = {_HEADER: json.dumps(checkpoint.about, allow_nan=False)}
    try:
        replace_file(path, save(tensors, metadata=header))
    except OSError as error:
        kept = "the last one is kept" if path.exists() else "there is none yet"
        reason = error.strerror or str(error)
        raise OSError(
            f"checkpoint: cannot write {path} ({reason}), {kept}; make room and run the same again"
        ) from error


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Read what `write_checkpoint` wrote; None where there is nothing.

    Raises:
        ValueError: the file is damaged, or no checkpoint.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})[_HEADER])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise ValueError(
            f"checkpoint: {path} is damaged or none ({reason}); delete it to start from the beginning"
        ) from None
    return Checkpoint(tensors, about)


def check_same(path: Path, kept: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise ValueError where a checkpoint is of another training; one line names what differs first.

    Args:
        path: of the checkpoint, for the message.
        kept: the settings in it.
        wanted: those that are asked for.
    """
    # Through JSON, for a tuple comes back as a list.
    old, new = _flat(kept), _flat(json.loads(json.dumps(wanted)))
    for name in (*new, *old):
        if old.get(name) != new.get(name):
            raise ValueError(
                f"{name}: is {_shown(new, name)}, but the checkpoint {path} is of a training with "
                f"{_shown(old, name)}; give another folder, or the settings of that training"
            )


def _flat(settings: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(settings, dict):
        return {prefix: settings}
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= _flat(value, f"{prefix}.{name}" if prefix else name)
    return found


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return f"{settings[name]!r:.80}" if name in settings else "none"

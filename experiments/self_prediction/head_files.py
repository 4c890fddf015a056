"""Heads on disk: tensors as safetensors, everything else as JSON beside them, the model's fingerprint included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.self_prediction.attach import check_belongs
from experiments.self_prediction.heads import SelfPredictionHead, Shape, Target
from experiments.self_prediction.place import Place
from hooks import Model
from probes.stem_files import ABOUT, StemFiles

FORMAT = 1
_LIBRARIES = ("torch",)
_FIELDS: dict[str, type] = {
    "class": str,
    "targets": list,
    "place": dict,
    "d_model": int,
    "shape": dict,
    "model": dict,
    "about": dict,
}


def save_head(
    head: SelfPredictionHead, stem: str | Path, about: Mapping[str, Any] | None = None
) -> None:
    """Write `stem`.safetensors and `stem`.json.

    Args:
        head: bound to its model.
        stem: path without a suffix; its folder is made.
        about: further facts, JSON-able, to be kept in the JSON (`about_head` reads them).

    Raises:
        ValueError: the head is bound to no model, it holds nan, or facts that JSON does not know; before anything is
            written.
    """
    if head.fingerprint is None:
        raise ValueError("head: belongs to no model; call bind(model) with the one it reads")
    tensors = {name: tensor.cpu().numpy() for name, tensor in head.state_dict().items()}
    for name, values in tensors.items():
        if not np.isfinite(values).all():
            raise ValueError(f"head: {name} holds nan or inf; train it again before it is saved")
    described = {
        "format": FORMAT,
        "class": SelfPredictionHead.__name__,
        "targets": [asdict(target) for target in head.targets],
        "place": asdict(head.place),
        "d_model": head.d_model,
        "shape": asdict(head.shape),
        "model": dict(head.fingerprint),
        "versions": {name: version(name) for name in _LIBRARIES},
        "about": dict(about or {}),
    }
    _files(stem).write(tensors, described)


def load_head(stem: str | Path, model: Model | None = None) -> SelfPredictionHead:
    """A head that `save_head` wrote.

    Args:
        stem: path without a suffix.
        model: what it shall read, on whose device it then is; without one only the files are checked.

    Raises:
        ValueError: in one line: no such files, damaged ones, two that do not belong together, nan or inf, or a head
            that belongs to another model.
    """
    files = _files(stem)
    described = _described(files)
    if model is not None:
        check_belongs(described["model"], model, f"head {files.path(ABOUT)}")
    try:
        # Without memory, which a damaged file shall not claim.
        with torch.device("meta"):
            head = SelfPredictionHead(
                [Target(**target) for target in described["targets"]],
                Place(**described["place"]),
                described["d_model"],
                Shape(**described["shape"]),
            )
    except (TypeError, ValueError, RuntimeError):
        raise files.damaged(ABOUT, "targets, place and shape make no head") from None
    shapes = {name: tuple(tensor.shape) for name, tensor in head.state_dict().items()}
    tensors = files.tensors(described, shapes, np.float32)
    head = SelfPredictionHead(head.targets, head.place, head.d_model, head.shape)
    head.load_state_dict({name: torch.from_numpy(w.copy()) for name, w in tensors.items()})
    head.fingerprint = described["model"]
    if model is not None:
        head.place.of(model)
        head.to(model.device)
    return head


def about_head(stem: str | Path) -> dict[str, Any]:
    """What was given as `about` when the head was saved."""
    about: dict[str, Any] = _described(_files(stem))["about"]
    return about


def _files(stem: str | Path) -> StemFiles:
    return StemFiles(Path(stem), "head")


def _described(files: StemFiles) -> dict[str, Any]:
    described = files.described(_FIELDS, FORMAT)
    if described["class"] != SelfPredictionHead.__name__:
        raise ValueError(
            f"head: {files.path(ABOUT)} holds a {described['class']}; give the stem of a saved head"
        )
    return described

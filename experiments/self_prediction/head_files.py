"""Heads on disk: tensors as safetensors, everything else as JSON beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hooks import Model

if TYPE_CHECKING:
    from experiments.self_prediction.heads import SelfPredictionHead


def save_head(
    head: SelfPredictionHead, stem: str | Path, about: Mapping[str, Any] | None = None
) -> None:
    """Write `stem`.safetensors and `stem`.json."""
    raise NotImplementedError


def load_head(stem: str | Path, model: Model | None = None) -> SelfPredictionHead:
    """A head that `save_head` wrote; refused where it belongs to another model."""
    raise NotImplementedError

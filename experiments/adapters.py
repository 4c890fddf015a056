"""LoRA adapters (Hu et al. 2021, arXiv 2106.09685) on the linear maps of a model's blocks, put in and taken out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from torch import nn

from hooks import Model


class Adapters:
    """Adapters that are in place."""

    parameters: Mapping[str, nn.Parameter]

    def save(self, stem: Path) -> None:
        """Write `stem`.safetensors and `stem`.json."""
        raise NotImplementedError

    def load(self, stem: Path) -> None:
        """Take the values that `save` wrote."""
        raise NotImplementedError

    def write_merged(self, folder: Path) -> None:
        """Write the model as it is now as an ordinary Hugging Face folder."""
        raise NotImplementedError


@contextmanager
def adapted(
    model: Model, *, rank: int = 16, seed: int = 0, blocks: Sequence[int] | None = None
) -> Iterator[Adapters]:
    """Put adapters into a model; on exit it is bit-identical to what it was."""
    raise NotImplementedError
    yield

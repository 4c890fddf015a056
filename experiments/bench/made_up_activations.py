"""Activations without a model, of any size, for what measures storage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from activations_cache import ActivationsCache
from hooks import CaptureSpec
from hooks.activations import Activations

BATCH_ITEMS = 32
POSITIONS = ("instruction_last", "prompt_last", "mean_instruction", "quote_last")


@dataclass(frozen=True)
class MadeUpActivations:
    """So many items at one site of so many layers and positions, to be stored in bfloat16."""

    n_items: int
    n_layers: int
    n_positions: int
    d_model: int

    @property
    def n_bytes(self) -> int:
        """Their size once stored."""
        return 2 * self.n_items * self.n_layers * self.n_positions * self.d_model

    @property
    def spec(self) -> CaptureSpec:
        """The site, the layers and the positions."""
        return CaptureSpec(
            ("resid_post",), tuple(range(self.n_layers)), POSITIONS[: self.n_positions]
        )

    def batches(self) -> Iterator[Activations]:
        """All items; the numbers of a batch come again, for drawing them would take longer than all else."""
        states = torch.randn(
            BATCH_ITEMS,
            self.n_layers,
            self.n_positions,
            self.d_model,
            generator=torch.Generator().manual_seed(0),
        )
        spec = self.spec
        assert not isinstance(spec.layers, str)
        for start in range(0, self.n_items, BATCH_ITEMS):
            ids = tuple(
                f"item-{i:06d}" for i in range(start, min(start + BATCH_ITEMS, self.n_items))
            )
            yield Activations(ids, {"resid_post": states[: len(ids)]}, spec.layers, spec.positions)

    def create(self, folder: Path) -> ActivationsCache:
        """An empty cache for them."""
        return ActivationsCache.create(folder, fingerprint={"name": "bench"}, spec=self.spec)

    def write(self, folder: Path) -> None:
        """A cache of them."""
        with ActivationsCache.create(
            folder, fingerprint={"name": "bench"}, spec=self.spec
        ) as cache:
            for batch in self.batches():
                cache.append(batch)

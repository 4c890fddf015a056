"""Small batches of known values for the cache's tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hooks.activations import LAYERLESS_SITES, Activations, CaptureSpec

SPEC = CaptureSpec(
    sites=("resid_post", "embed"), layers=(1, 3, 4), positions=("instruction_last", "prompt_last")
)
FINGERPRINT = {"name": "tiny", "weights_sha256": "ab12", "dtype": "float32", "processing": "raw"}


def make_batch(
    ids: Sequence[str], spec: CaptureSpec = SPEC, d_model: int = 8, options: Sequence[str] = ()
) -> Activations:
    """A batch whose values depend on the ids alone, so that a resumed capture can be compared."""
    layers = spec.layers
    assert not isinstance(layers, str)
    generators = {item: torch.Generator().manual_seed(sum(item.encode())) for item in ids}

    def draw(*shape: int) -> torch.Tensor:
        rows = [torch.randn(shape, generator=generators[item]) * 1e3 for item in ids]
        return torch.stack(rows) if rows else torch.empty(0, *shape)

    return Activations(
        ids=tuple(ids),
        sites={
            site: draw(1 if site in LAYERLESS_SITES else len(layers), len(spec.positions), d_model)
            for site in spec.sites
        },
        layers=layers,
        positions=spec.positions,
        option_logprobs={name: draw() for name in options},
    )


def make_plan(n_batches: int, batch_size: int = 4) -> list[tuple[str, ...]]:
    """The ids of each batch of a capture."""
    return [
        tuple(f"item-{batch:03d}-{row}" for row in range(batch_size)) for batch in range(n_batches)
    ]


def shards_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of a cache's journal."""
    return [json.loads(line) for line in (folder / "shards.jsonl").read_text().splitlines()]

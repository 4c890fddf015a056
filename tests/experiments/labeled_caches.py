"""A small cache with a label planted in one cell, and the files that `selfprobe probe` takes beside it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from activations_cache import ActivationsCache
from hooks.activations import Activations, CaptureSpec
from tests.activations_cache.cache_batches import FINGERPRINT

N, D = 120, 8
IDS = tuple(f"item-{i:03d}" for i in range(N))
GROUPS = [f"group-{i // 3}" for i in range(N)]
LAYERS, POSITIONS = (2, 3, 5), ("mean_instruction", "prompt_last")
PLANTED = ("resid_post", 3, "prompt_last")
Y = np.random.default_rng(0).integers(0, 2, N // 3).repeat(3)


def make_cache(folder: Path, planted: np.ndarray) -> None:
    """A cache at `folder` / "cache" whose planted cell holds `planted` `[item]` along one direction."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(N, len(LAYERS), len(POSITIONS), D, generator=generator)
    states[:, LAYERS.index(3), POSITIONS.index("prompt_last"), 0] += torch.from_numpy(planted)
    embed = torch.randn(N, 1, len(POSITIONS), D, generator=generator)
    spec = CaptureSpec(("resid_post", "embed"), LAYERS, POSITIONS)
    with ActivationsCache.create(
        folder / "cache", fingerprint=FINGERPRINT, spec=spec, dtype="float32"
    ) as cache:
        sites = {"resid_post": states, "embed": embed}
        cache.append(Activations(IDS, sites, layers=LAYERS, positions=POSITIONS))
    groups = pd.DataFrame({"id": IDS, "group": GROUPS})
    groups.to_csv(folder / "cache" / "prompts.csv", index=False)


def write_labels(folder: Path, **columns: object) -> None:
    """labels.csv, in another order than the cache's."""
    table = pd.DataFrame({"id": IDS, "label": Y} | columns)
    table.sample(frac=1, random_state=0).to_csv(folder / "labels.csv", index=False)


def write_prompts(folder: Path, texts: list[str]) -> None:
    """prompts.jsonl, a chat of one message an item."""
    rows = [
        {"id": id, "prompt": text, "group": group}
        for id, text, group in zip(IDS, texts, GROUPS, strict=True)
    ]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

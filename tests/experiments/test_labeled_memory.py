"""Memory of a probe of own labels: flat in the number of cells."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.labeled.labels import Kind, Labels
from experiments.labeled.measured import ProbeSettings
from experiments.labeled.probe import probe_labels

N, D = 60, 2000
CELL = 4 * N * D
GROUPS = np.arange(N) // 2


class MadeUpCache:
    """Reads every cell afresh, as a cache does from its disk."""

    path, fingerprint, d_model = Path("made-up"), {"model": "made-up"}, D

    def __init__(self, n_layers: int) -> None:
        self.n_layers = n_layers

    def cells(self) -> list[tuple[str, int | None, str]]:
        return [("resid_post", layer, "prompt_last") for layer in range(self.n_layers)]

    def read(self, site: str, *, layer: int, position: str, ids: Sequence[str]) -> Any:
        return np.random.default_rng(layer).normal(size=(len(ids), D)).astype(np.float32)


def peak(kind: Kind, y: np.ndarray, n_layers: int) -> int:
    """Bytes at the highest point."""
    labels = Labels(kind, tuple(map(str, range(N))), y, GROUPS, ())
    settings = ProbeSettings(folds=3, regroupings=1)
    tracemalloc.start()
    probe_labels(MadeUpCache(n_layers), labels, settings)  # type: ignore[arg-type]
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return highest


@pytest.mark.parametrize("kind", ["binary", "rate"])
def test_memory_does_not_grow_with_layers(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(N) // 2 % 2 if kind == "binary" else rng.random(N)
    few, many = peak(kind, y, 8), peak(kind, y, 48)
    # Of forty cells more, what is kept is scores and null: a small share of what the cells hold.
    assert many - few < 40 * CELL / 8
    assert few > CELL

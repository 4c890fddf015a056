"""Peak memory of a sweep over some layers and over four times as many, each in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from activations_cache import ActivationsCache
from experiments.bench.measured_sweep import Reader, Targets
from experiments.bench.process_memory import peak_of_process, peak_of_this_process

MEMORY_LAYERS = (2, 8)


def peaks_by_layers(
    cache: ActivationsCache,
    targets: Targets,
    folder: Path,
    described: tuple[list[str], list[str]],
) -> list[int]:
    """Peak memory of a process of its own for a few layers and for four times as many."""
    about: Mapping[str, Any] = {
        "described": described,
        "n_permutations": targets.n_permutations,
        "cache": str(cache.path),
    }
    file = folder / "sweep.json"
    file.write_text(json.dumps(about), encoding="utf-8")
    return [
        peak_of_process("experiments.bench.sweep_memory", str(file), str(layers))
        for layers in MEMORY_LAYERS
    ]


def _sweep_in_this_process(file: Path, n_layers: int) -> None:
    about = json.loads(file.read_text(encoding="utf-8"))
    cache = ActivationsCache.open(about["cache"])
    cells = [cell for cell in cache.cells() if (cell[1] or 0) < n_layers]
    groups, texts = about["described"]
    Targets.of(groups, texts, about["n_permutations"]).sweep(Reader(cache, cells))


if __name__ == "__main__":
    _sweep_in_this_process(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write(str(peak_of_this_process()))

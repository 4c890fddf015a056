"""Probes on disk: weights as safetensors, everything else as JSON beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from experiments.records import write_bytes, write_json
from probes import RidgeProbe


def save_probe(
    stem: Path, probe: RidgeProbe, cell: tuple[str, int | None, str], **about: Any
) -> None:
    """Write `stem`.safetensors (`direction` `[d_model]` and `intercept` `[1]`, raw space) and `stem`.json."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    site, layer, position = cell
    weights = {
        "direction": np.asarray(probe.direction_, dtype=np.float64),
        "intercept": np.atleast_1d(np.asarray(probe.intercept_, dtype=np.float64)),
    }
    write_bytes(stem.with_name(stem.name + ".safetensors"), save(weights))
    write_json(
        stem.with_name(stem.name + ".json"),
        {
            "probe": "ridge",
            "alpha": probe.alpha,
            "site": site,
            "layer": layer,
            "position": position,
            **about,
        },
    )

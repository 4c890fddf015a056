"""A randomly initialized model of the same architecture: what its untrained states say of the outcome.

Random layers keep much of the text: a probe of trained states must beat one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.captures import capture_into
from experiments.config import RunConfig
from experiments.progress import Reporter
from hooks import CaptureSpec, Model, Prompt, randomly_initialized

N_LAYERS = 5
"""Layers that are captured, spread over the depth: without training neighbors differ little."""


def capture_random_weights(
    folder: Path, model: Model, prompts: Sequence[Prompt], config: RunConfig, reporter: Reporter
) -> None:
    """Capture the prompts' states in a random model of `model`'s architecture into the cache at `folder`."""
    capture_into(
        folder,
        randomly_initialized(model, config.seed),
        prompts,
        random_spec(config, model.n_layers),
        reporter=reporter,
        stage="random weights",
    )


def random_spec(config: RunConfig, n_layers: int) -> CaptureSpec:
    """The run's site and positions at a few layers from the first to the last."""
    layers = np.linspace(0, n_layers - 1, min(N_LAYERS, n_layers)).round().astype(int)
    return replace(config.probed_spec(), layers=tuple(layers.tolist()))

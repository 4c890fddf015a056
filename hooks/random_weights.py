"""A model's architecture without what it has learned: the same config, weights as its family begins training."""

from __future__ import annotations

import copy

import torch

from hooks.model import Model
from hooks.weights import quiet_transformers


def randomly_initialized(model: Model, seed: int = 0) -> Model:
    """Return a model of the same config, tokenizer, dtype and device with random weights.

    The weights are drawn by the model family's own initialization, on the CPU, so that they do not depend on the
    device. The fingerprint names them and the seed in place of the weights.

    Args:
        model: whose architecture is taken; it is left alone.
        seed: of the weights.

    Raises:
        ValueError: the family's initialization gives weights that cannot be run.
    """
    module_class = type(model.module)
    with torch.random.fork_rng(devices=[]), quiet_transformers():
        torch.manual_seed(seed)
        # What AutoModelForCausalLM.from_config calls; that itself does not know classes of remote code.
        module = module_class._from_config(copy.deepcopy(model.module.config), dtype=model.dtype)
    return Model.from_module(
        module.to(model.device),
        model.tokenizer,
        name=f"{model.name} (random weights)",
        weights_id=f"random, seed {seed}",
    )

"""How the states of two positions are commonly read, each as its own documentation shows it.

All of them take prompts in the order of the input, in padded batches of 16, and keep the states of every layer at
`prompt_last` and `instruction_last`, `[item, layer, position, d_model]`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hooks import Model
from hooks.backends.twin import twin
from hooks.batching import Batch, padded_batch
from hooks.positions import token_range
from hooks.prompts import Rendered

BATCH_SIZE = 16

Rival = Callable[[Sequence[Rendered]], list[Tensor]]


def output_hidden_states(model: Model) -> Rival:
    """transformers: `model(**inputs, output_hidden_states=True)`, then pick."""

    def read(batch: Batch) -> Tensor:
        with torch.inference_mode():
            output = model.module(**_inputs(model, batch), output_hidden_states=True)
        return _picked(output.hidden_states[1:], batch)

    return lambda prompts: [read(batch) for batch in _batches(model, prompts)]


def run_with_cache(model: Model) -> Rival:
    """TransformerLens: `bridge.run_with_cache(tokens, names_filter=...)`, then pick."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    module = twin(model.module)
    bridge: Any = build_bridge_from_module(module, type(module).__name__, hf_config=module.config)
    names = [f"blocks.{layer}.hook_resid_post" for layer in range(model.n_layers)]

    def read(batch: Batch) -> Tensor:
        inputs = _inputs(model, batch)
        with torch.inference_mode():
            _, cache = bridge.run_with_cache(
                inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                names_filter=lambda name: name in names,
            )
        return _picked([cache[name] for name in names], batch)

    return lambda prompts: [read(batch) for batch in _batches(model, prompts)]


def nnsight_trace(model: Model) -> Rival:
    """nnsight: `with model.trace(...)`, the blocks' outputs saved, then pick."""
    import nnsight

    wrapped: Any = nnsight.TransformersModel(
        twin(model.module), tokenizer=copy.deepcopy(model.tokenizer)
    )
    blocks = model.architecture.blocks
    paths = {id(module): path for path, module in model.module.named_modules()}
    envoys = [wrapped.get(paths[id(block.module)]) for block in blocks]

    def read(batch: Batch) -> Tensor:
        inputs = _inputs(model, batch)
        with torch.inference_mode(), wrapped.trace(**inputs):
            states = nnsight.save([envoy.output for envoy in envoys])
        return _picked(states, batch)

    return lambda prompts: [read(batch) for batch in _batches(model, prompts)]


def _batches(model: Model, prompts: Sequence[Rendered]) -> list[Batch]:
    return [
        padded_batch(prompts[start : start + BATCH_SIZE], model.pad_id, side="left")
        for start in range(0, len(prompts), BATCH_SIZE)
    ]


def _inputs(model: Model, batch: Batch) -> dict[str, Tensor]:
    mask = batch.visible.long()
    return {"input_ids": batch.token_ids.to(model.device), "attention_mask": mask.to(model.device)}


def _picked(layers: Sequence[Any], batch: Batch) -> Tensor:
    """Pick the two positions out of whole layers."""
    width = batch.token_ids.shape[1]
    ends = torch.tensor([token_range(p, "instruction_last")[0] - len(p) for p in batch.prompts])
    rows = torch.arange(len(ends))
    states = [layer[0] if isinstance(layer, tuple) else layer for layer in layers]
    picked = [torch.stack([s[:, -1], s[rows, width + ends]], dim=1) for s in states]
    return torch.stack(picked, dim=1).cpu()

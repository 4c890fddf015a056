"""Read a prompt up to a block, and go on from there many times over, each time with other states.

An intervention on the last tokens of a prompt changes nothing before them and nothing below its layer: keys and values
of earlier tokens are computed once, the lower blocks are passed by, and what is left is the upper part of a pass over a
few tokens. So thousands of directions can be tried, where `intervene` would read the whole prompt for each.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hooks.architecture import block_input, find_cache, first_tensor
from hooks.model import Model
from hooks.positions import token_range
from hooks.prompts import Prompt, render
from hooks.readout import check_readout

_TOKENS_AT_ONCE = 512
"""Tokens of one batch: more keep two cores no busier."""


@dataclass(frozen=True)
class Halfway:
    """A prompt that has been read up to a block.

    Attributes:
        layer: the block whose output can be changed.
        start: the first token of the tail, whose states can be changed; 0 where a cache cannot be read on.
        token_ids: all tokens of the prompt.
        states: the residual stream after the block at every token of the tail, which ends with the prompt; float32 on
            the CPU.
    """

    layer: int
    start: int
    token_ids: tuple[int, ...]
    states: Float[Tensor, "tail d_model"]
    _cache: dict[str, Any] = field(repr=False)

    @property
    def n_tail(self) -> int:
        """Tokens of the tail."""
        return len(self.states)


def read_halfway(model: Model, prompt: Prompt, layer: int, position: str) -> Halfway:
    """Read a prompt, and keep the states after block `layer` from a named position to the end.

    A position of several tokens (`mean_instruction`) begins with the first of them.

    Raises:
        ValueError: the prompt lacks the position, the model lacks the layer, or its logits have no exact readout.
    """
    check_readout(model)
    if not 0 <= layer < model.n_layers:
        raise ValueError(
            f"layers: {layer} does not exist; this model has layers 0 to {model.n_layers - 1}"
        )
    rendered = render(model, prompt)
    start = token_range(rendered, position)[0]
    if model.architecture.cache_problem:
        start = 0
    recorded: list[Tensor] = []
    block = model.architecture.blocks[layer].module
    with torch.inference_mode(), ExitStack() as stack:
        cache: dict[str, Any] = {}
        if start:
            output = model.architecture.backbone(
                **_inputs(model, rendered.token_ids[:start], 0, 1), use_cache=True
            )
            name, held = find_cache(output)
            cache = {name: held}
        stack.callback(block.register_forward_hook(_keep(recorded)).remove)
        model.architecture.backbone(
            **_inputs(model, rendered.token_ids, start, 1),
            **copy.deepcopy(cache),
            use_cache=bool(cache),
        )
    return Halfway(layer, start, rendered.token_ids, recorded[0][0].float().cpu().clone(), cache)


def go_on(
    model: Model, halfway: Halfway, states: Float[Tensor, "row tail d_model"]
) -> Float[Tensor, "row vocabulary"]:
    """The model's logits for its first answer token, had the residual stream been these states.

    Args:
        model: the model that `halfway` was read by.
        halfway: from `read_halfway`.
        states: what the block gives in every row instead.

    Returns:
        float32, on the model's device.
    """
    assert model.architecture.readout is not None
    rows = max(1, _TOKENS_AT_ONCE // halfway.n_tail)
    with torch.inference_mode():
        last = torch.cat([_last_states(model, halfway, part) for part in torch.split(states, rows)])
        logits: Tensor = model.architecture.readout(last)
    return logits.clone()


def _last_states(
    model: Model, halfway: Halfway, states: Float[Tensor, "row tail d_model"]
) -> Float[Tensor, "row d_model"]:
    """States of the last token behind the final norm."""
    final: list[Tensor] = []
    assert model.architecture.final_norm is not None
    n_rows = len(states)
    cache = copy.deepcopy(halfway._cache)
    for held in cache.values():
        _repeat_rows(held, n_rows, model.device)
    with ExitStack() as stack:
        stack.enter_context(_blocks_give(model, halfway.layer, states))
        stack.callback(model.architecture.final_norm.register_forward_hook(_keep(final)).remove)
        model.architecture.backbone(
            **_inputs(model, halfway.token_ids, halfway.start, n_rows),
            **cache,
            use_cache=bool(cache),
        )
    return final[0].reshape(n_rows, -1, model.d_model)[:, -1]


def _repeat_rows(held: Any, n_rows: int, device: torch.device) -> None:
    """Let a cache of one row hold it so many times over.

    As views where a layer only ever adds to what it holds: `reorder_cache` copies it for every row and layer, those
    that compute nothing included, and took two thirds of the time of going on.
    """
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    layers = getattr(held, "layers", ())
    if not layers or {type(layer) for layer in layers} - {DynamicLayer, DynamicSlidingWindowLayer}:
        held.reorder_cache(torch.zeros(n_rows, dtype=torch.long, device=device))
        return
    for layer in layers:
        layer.keys = layer.keys.expand(n_rows, *layer.keys.shape[1:])
        layer.values = layer.values.expand(n_rows, *layer.values.shape[1:])


def _inputs(model: Model, token_ids: tuple[int, ...], start: int, n_rows: int) -> dict[str, Any]:
    """What the backbone is given for the tokens from `start` on, the same in every row."""
    tail = torch.tensor(token_ids[start:]).expand(n_rows, -1)
    inputs = {
        "input_ids": tail,
        "attention_mask": torch.ones(n_rows, len(token_ids), dtype=torch.long),
    }
    if model.architecture.takes_position_ids:
        inputs["position_ids"] = torch.arange(start, len(token_ids)).expand(n_rows, -1)
    return {name: tensor.to(model.device) for name, tensor in inputs.items()}


def _keep(found: list[Tensor]) -> Callable[..., None]:
    def hook(_: nn.Module, __: Any, output: Any) -> None:
        found.append(first_tensor(output))

    return hook


@contextmanager
def _blocks_give(
    model: Model, layer: int, states: Float[Tensor, "row tail d_model"]
) -> Iterator[None]:
    """Let the blocks up to `layer` compute nothing, and the last of them give the states."""
    with ExitStack() as stack:
        for index, block in enumerate(model.architecture.blocks[: layer + 1]):
            given = states if index == layer else None
            stack.enter_context(_computes_nothing(block.module, given))
        yield


@contextmanager
def _computes_nothing(block: nn.Module, given: Tensor | None) -> Iterator[None]:
    """Let a block give its input, or `given`."""
    own = vars(block).get("forward")

    def forward(*args: Any, **kwargs: Any) -> Any:
        entered = block_input(args, kwargs)
        return entered if given is None else given.to(entered)

    block.forward = forward
    try:
        yield
    finally:
        if own is None:
            del block.forward
        else:
            block.forward = own

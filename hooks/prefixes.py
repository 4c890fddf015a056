"""What the prompts of a batch begin with, read before they are and once for all that share it.

Beginnings are laid side by side as a capture lays out prompts (`hooks.batching.shared_batch`): each token of the tree
that they form is read once. Keys and values of every prompt are then gathered from the slots of its own tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hooks.architecture import find_cache
from hooks.backends.torch import model_inputs
from hooks.batching import (
    SHARED_PROMPT_TOKENS,
    SHARED_ROW_TOKENS,
    Batch,
    common_prefix,
    shared_batch,
    shared_rows,
)
from hooks.model import Model
from hooks.plan import may_share
from hooks.positions import token_range
from hooks.prompts import Rendered


def in_reading_order(model: Model, prompts: Sequence[Rendered]) -> list[Rendered]:
    """The prompts so that a batch shares much, by their tokens, or so that it pads little, by length."""
    gathers = may_share(model) and _may_gather(model, prompts)
    return sorted(prompts, key=lambda one: (0 if gathers else len(one), one.token_ids, one.id))


def shared_lengths(
    model: Model, prompts: Sequence[Rendered], max_new_tokens: int, positions: Sequence[str]
) -> list[int]:
    """How many leading tokens of each prompt are read beforehand, never all of them.

    Positions to be captured come behind what is read beforehand. Windowed layers count slots, and padding behind a
    beginning takes some: so nothing is shared where the window could be reached.
    """
    nothing = [0] * len(prompts)
    if len(prompts) == 1 or not may_share(model):
        return nothing
    most = [
        min(len(prompt) - 1, *(token_range(prompt, position)[0] for position in positions))
        if positions
        else len(prompt) - 1
        for prompt in prompts
    ]
    lengths = most if _may_gather(model, prompts) else [min(_common(prompts), *most)] * len(prompts)
    window = model.architecture.window
    fits = window is None or _width(prompts, lengths) + max_new_tokens <= window
    return lengths if fits else nothing


def _may_gather(model: Model, prompts: Sequence[Rendered]) -> bool:
    """Whether all that the model keeps of a token lies in a slot of its own, as long as it writes."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    if model.architecture.cache_problem or max(map(len, prompts)) > SHARED_PROMPT_TOKENS:
        return False
    layers = DynamicCache(config=model.module.config).layers
    return all(type(layer) is DynamicLayer for layer in layers)


def _common(prompts: Sequence[Rendered]) -> int:
    return min(common_prefix(prompts[0].token_ids, prompt.token_ids) for prompt in prompts)


def _width(prompts: Sequence[Rendered], lengths: Sequence[int]) -> int:
    """Slots of a row: the longest beginning and the longest of what follows one."""
    return max(lengths) + max(len(p) - n for p, n in zip(prompts, lengths, strict=True))


def prefix_cache(
    model: Model, prompts: Sequence[Rendered], lengths: Sequence[int]
) -> dict[str, Any]:
    """Keys and values of what is read beforehand, a row a prompt and padded on the left, as the model takes them."""
    if not max(lengths):
        return {}
    beginnings = [
        replace(prompt, token_ids=prompt.token_ids[:n])
        for prompt, n in zip(prompts, lengths, strict=True)
    ]
    if len({one.token_ids for one in beginnings}) == 1:
        batch = shared_batch([beginnings[:1]], model.pad_id)
        name, cache = _read(model, batch)
        cache.reorder_cache(torch.zeros(len(prompts), dtype=torch.long, device=model.device))
        return {name: cache}
    ordered = sorted(beginnings, key=lambda one: (one.token_ids, one.id))
    batch = shared_batch(shared_rows(ordered, SHARED_ROW_TOKENS), model.pad_id)
    name, cache = _read(model, batch)
    slots = _slots_of(batch, beginnings)
    for layer in cache.layers:
        layer.keys, layer.values = _gathered(layer.keys, slots), _gathered(layer.values, slots)
    return {name: cache}


def _read(model: Model, batch: Batch) -> tuple[str, Any]:
    with model.reading(batch):
        output = model.architecture.backbone(**model_inputs(model, batch) | {"use_cache": True})
    return find_cache(output)


def _slots_of(batch: Batch, beginnings: Sequence[Rendered]) -> Tensor:
    """`[prompt, slot]`: where each slot of a prompt's row lies in the flattened batch; padding is anywhere."""
    place = {prompt.id: index for index, prompt in enumerate(batch.prompts)}
    slots = torch.zeros(len(beginnings), max(map(len, beginnings)), dtype=torch.long)
    for row, beginning in enumerate(beginnings):
        if len(beginning):
            own = batch.flat_slots(place[beginning.id], None)
            slots[row, -len(own) :] = torch.tensor(own)
    return slots


def _gathered(states: Tensor, slots: Tensor) -> Tensor:
    """From `[row, head, slot, size]` to the same of prompts."""
    flat = states.transpose(1, 2).flatten(0, 1)
    return flat[slots.to(states.device)].transpose(1, 2)

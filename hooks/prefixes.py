"""What the prompts of a batch begin with, read before they are and once for all that share it.

Beginnings are laid side by side as a capture lays out prompts (`hooks.batching.shared_batch`): each token of the tree
that they form is read once. Keys and values of every prompt are then gathered from the slots of its own tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from hooks.architecture import find_cache
from hooks.backends.torch import model_inputs
from hooks.batching import (
    SHARED_ROW_TOKENS,
    Batch,
    common_prefix,
    shared_batch,
    shared_rows,
)
from hooks.kept import Kept, may_gather
from hooks.model import Model
from hooks.plan import may_share
from hooks.positions import token_range
from hooks.prompts import Rendered


def in_reading_order(model: Model, prompts: Sequence[Rendered]) -> list[Rendered]:
    """The prompts so that a batch shares much, by their tokens, or so that it pads little, by length."""
    gathers = may_share(model) and may_gather(model, prompts)
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
    lengths = most if may_gather(model, prompts) else [min(_common(prompts), *most)] * len(prompts)
    window = model.architecture.window
    fits = window is None or _width(prompts, lengths) + max_new_tokens <= window
    return lengths if fits else nothing


def _common(prompts: Sequence[Rendered]) -> int:
    return min(common_prefix(prompts[0].token_ids, prompt.token_ids) for prompt in prompts)


def _width(prompts: Sequence[Rendered], lengths: Sequence[int]) -> int:
    """Slots of a row: the longest beginning and the longest of what follows one."""
    return max(lengths) + max(len(p) - n for p, n in zip(prompts, lengths, strict=True))


def prefix_cache(
    model: Model, prompts: Sequence[Rendered], lengths: Sequence[int], kept: Kept | None = None
) -> Mapping[str, Any]:
    """Keys and values of what is read beforehand, a row a prompt and padded on the left, as the model takes them.

    They are read here, unless `kept` has them.
    """
    if not max(lengths):
        return {}
    if kept is not None:
        return kept.beginnings(prompts, lengths)
    beginnings = [
        replace(prompt, token_ids=prompt.token_ids[:n])
        for prompt, n in zip(prompts, lengths, strict=True)
    ]
    if len({one.token_ids for one in beginnings}) == 1:
        kept = _read(model, shared_batch([beginnings[:1]], model.pad_id))
        kept.cache.reorder_cache(torch.zeros(len(prompts), dtype=torch.long, device=model.device))
        return {kept.name: kept.cache}
    ordered = sorted(beginnings, key=lambda one: (one.token_ids, one.id))
    kept = _read(model, shared_batch(shared_rows(ordered, SHARED_ROW_TOKENS), model.pad_id))
    return kept.beginnings(beginnings, lengths)


def _read(model: Model, batch: Batch) -> Kept:
    with model.reading(batch):
        output = model.architecture.backbone(**model_inputs(model, batch) | {"use_cache": True})
    return Kept(batch, *find_cache(output))

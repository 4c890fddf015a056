"""What the prompts of a batch begin with, read once for all that share it.

All of them may begin alike (a system prompt), and some more so than others: questions about one item quote it first.
Prompts that share much are a *family*; a batch holds whole families where it can, reads each beginning once, and lays
the beginnings and what follows them side by side, both padded on the left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hooks.architecture import find_cache
from hooks.batching import common_prefix
from hooks.model import Model
from hooks.plan import may_share
from hooks.positions import token_range
from hooks.prompts import Rendered

_FAMILY = 0.25
"""Least share of a prompt, beyond what all prompts have in common, that it has in common with its family."""

_WORTH = 0.8
"""Families are read beforehand where that leaves this share of the tokens: more slots to attend to cost as well."""


def in_families(prompts: Sequence[Rendered]) -> list[Rendered]:
    """The prompts with families side by side, short ones first; without any family, by length."""
    families = _families(sorted(prompts, key=lambda prompt: (prompt.token_ids, prompt.id)))
    for family in families:
        family.sort(key=_by_length)
    families.sort(key=lambda family: _by_length(family[-1]))
    return [prompt for family in families for prompt in family]


def _by_length(prompt: Rendered) -> tuple[int, tuple[int, ...], str]:
    return len(prompt), prompt.token_ids, prompt.id


def _families(prompts: Sequence[Rendered]) -> list[list[Rendered]]:
    """Neighbors that have more in common than with all the others."""
    everyone = _common(prompts)
    families: list[list[Rendered]] = []
    for prompt in prompts:
        own = len(prompt) - everyone
        shared = _common([families[-1][0], prompt]) - everyone if families else 0
        if families and shared > _FAMILY * own:
            families[-1].append(prompt)
        else:
            families.append([prompt])
    return families


def _common(prompts: Sequence[Rendered]) -> int:
    return min(common_prefix(prompts[0].token_ids, prompt.token_ids) for prompt in prompts)


def shared_lengths(
    model: Model, prompts: Sequence[Rendered], max_new_tokens: int, positions: Sequence[str]
) -> list[int]:
    """How many leading tokens of each prompt are read beforehand, never all of them.

    Prompts are in the order of `in_families`. Positions to be captured come behind what is read beforehand. Windowed
    layers count slots, and padding behind a beginning takes some: so nothing is shared where the window could be
    reached.
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
    shared = [min(_common(prompts), *most)] * len(prompts)
    of_families = _of_families(prompts, most)
    if _tokens_read(prompts, of_families) < _WORTH * _tokens_read(prompts, shared):
        shared = of_families
    window = model.architecture.window
    fits = window is None or _width(prompts, shared) + max_new_tokens <= window
    return shared if fits else nothing


def _of_families(prompts: Sequence[Rendered], most: Sequence[int]) -> list[int]:
    lengths: list[int] = []
    for family in _families(prompts):
        own = most[len(lengths) : len(lengths) + len(family)]
        lengths += [min(_common(family), *own)] * len(family)
    return lengths


def _width(prompts: Sequence[Rendered], lengths: Sequence[int]) -> int:
    """Slots of a row: the longest beginning and the longest of what follows one."""
    return max(lengths) + max(len(p) - n for p, n in zip(prompts, lengths, strict=True))


def _tokens_read(prompts: Sequence[Rendered], lengths: Sequence[int]) -> int:
    """What a batch costs, padding included."""
    beginnings = {p.token_ids[:n] for p, n in zip(prompts, lengths, strict=True)}
    behind = _width(prompts, lengths) - max(lengths)
    return len(beginnings) * max(lengths) + len(prompts) * behind


def prefix_cache(
    model: Model, prompts: Sequence[Rendered], lengths: Sequence[int]
) -> dict[str, Any]:
    """Keys and values of what is read beforehand, a row a prompt, under the name that the model takes."""
    if not max(lengths):
        return {}
    of_prompt = [p.token_ids[:n] for p, n in zip(prompts, lengths, strict=True)]
    beginnings = list(dict.fromkeys(of_prompt))
    width = max(lengths)
    token_ids = torch.full((len(beginnings), width), model.pad_id)
    position_ids = torch.zeros(len(beginnings), width, dtype=torch.long)
    visible = torch.zeros(len(beginnings), width, dtype=torch.long)
    for row, tokens in enumerate(beginnings):
        own = slice(width - len(tokens), width)
        token_ids[row, own] = torch.tensor(tokens, dtype=torch.long)
        position_ids[row, own] = torch.arange(len(tokens))
        visible[row, own] = 1
    inputs = {"input_ids": token_ids, "attention_mask": visible}
    if model.architecture.takes_position_ids:
        inputs["position_ids"] = position_ids
    output = model.architecture.backbone(
        **{name: tensor.to(model.device) for name, tensor in inputs.items()}, use_cache=True
    )
    name, cache = find_cache(output)
    cache.reorder_cache(torch.tensor([beginnings.index(tokens) for tokens in of_prompt]))
    return {name: cache}

"""What a model keeps of prompts that it has read, its keys and values, for completions that go on from there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hooks.architecture import find_cache
from hooks.batching import SHARED_PROMPT_TOKENS, Batch
from hooks.model import Model
from hooks.prompts import Rendered


@dataclass(frozen=True)
class Kept:
    """Keys and values of a batch that was read.

    Attributes:
        batch: what was read.
        name: what the model calls its cache.
        cache: of all layers, laid out as the batch.
    """

    batch: Batch
    name: str
    cache: Any

    def beginnings(self, prompts: Sequence[Rendered], lengths: Sequence[int]) -> Mapping[str, Any]:
        """The cache of the first `lengths` tokens of prompts that are in the batch, as a model takes it.

        A row a prompt, padded on the left.

        Raises:
            ValueError: a prompt is not in the batch.
        """
        slots = self._slots(prompts, lengths)
        cache = copy.copy(self.cache)
        cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        for layer in cache.layers:
            layer.keys, layer.values = _gathered(layer.keys, slots), _gathered(layer.values, slots)
        return {self.name: cache}

    def _slots(self, prompts: Sequence[Rendered], lengths: Sequence[int]) -> Tensor:
        """`[prompt, slot]`: where each slot of a prompt's row lies in the flattened batch; padding is anywhere."""
        place = {prompt.token_ids: index for index, prompt in enumerate(self.batch.prompts)}
        slots = torch.zeros(len(prompts), max(lengths), dtype=torch.long)
        for row, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
            if prompt.token_ids not in place:
                raise ValueError(f"kept: {prompt.id!r} was not read with it; leave `kept` out")
            if length:
                own = self.batch.flat_slots(place[prompt.token_ids], None)[:length]
                slots[row, -length:] = torch.tensor(own)
        return slots


def may_gather(model: Model, prompts: Sequence[Rendered]) -> bool:
    """Whether all that the model keeps of a token lies in a slot of its own, as long as it writes."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    if model.architecture.cache_problem or max(map(len, prompts)) > SHARED_PROMPT_TOKENS:
        return False
    layers = DynamicCache(config=model.module.config).layers
    return all(type(layer) is DynamicLayer for layer in layers)


@contextmanager
def keeping(model: Model, batch: Batch) -> Iterator[Callable[[], Kept | None]]:
    """Let the model keep what it reads of a batch inside the block, where that can be told apart by prompts.

    Yields a function that returns what was kept, None if nothing was: models that keep states of another kind, or that
    count slots of a window, and passes that end before the last layer.
    """
    found: list[Kept] = []

    def ask(_: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> Any:
        return args, inputs | {"use_cache": True}

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        found.append(Kept(batch, *find_cache(output)))

    backbone = model.architecture.backbone
    handles = []
    if model.architecture.window is None and may_gather(model, batch.prompts):
        handles = [
            backbone.register_forward_pre_hook(ask, with_kwargs=True),
            backbone.register_forward_hook(keep),
        ]
    try:
        yield lambda: found[-1] if found else None
    finally:
        for handle in handles:
            handle.remove()


def _gathered(states: Tensor, slots: Tensor) -> Tensor:
    """From `[row, head, slot, size]` to the same of prompts."""
    flat = states.transpose(1, 2).flatten(0, 1)
    return flat[slots.to(states.device)].transpose(1, 2)

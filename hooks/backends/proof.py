"""Proves on a loaded model, by a few tokens, that what a backend reads is what the reference reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch

from hooks.activations import CaptureSpec
from hooks.agreement import Gap, widest_gap
from hooks.backends import States
from hooks.backends.torch import BACKEND as REFERENCE
from hooks.batching import Batch, padded_batch, shared_batch
from hooks.model import Model
from hooks.prompts import Rendered

T = TypeVar("T")
Reader = Callable[[Batch, CaptureSpec], States]

# Single tokens: means would be those of the first token, whose states are often the largest by far.
_POSITIONS = ("instruction_last", "template_1", "template_2", "prompt_last")


@dataclass(frozen=True)
class Proved(Generic[T]):
    """What a backend has built around a model, and why it does not give a site."""

    wrapper: T
    refused: Mapping[str, str] = field(default_factory=dict)

    def require(self, library: str, model: Model, sites: tuple[str, ...]) -> None:
        """Raise ValueError, with the reason, if one of the sites is not given."""
        for site in sites:
            if site in self.refused:
                raise ValueError(
                    f"backend: {library} gives no {site!r} of model type "
                    f"{model.module.config.model_type!r}: {self.refused[site]}; "
                    'use backend="torch"'
                )


def gaps(read: Reader, model: Model, sites: tuple[str, ...]) -> dict[str, Gap]:
    """Return per site the widest gap between a reader and the reference, over all layers and layouts."""
    spec = CaptureSpec(sites=sites, positions=_POSITIONS).resolve(model.n_layers)
    widest: dict[str, Gap] = {}
    for batch in _batches(model):
        found = read(batch, spec).sites
        wanted = REFERENCE.read(model, batch, spec, logits=False).sites
        for site in sites:
            one = widest_gap({site: found[site]}, {site: wanted[site]}, model.dtype)
            widest[site] = max(one, widest.get(site, one))
    return widest


def _batches(model: Model) -> Iterator[Batch]:
    """Yield three prompts, two of which share a prefix, in every layout that the model may be given."""
    vocabulary = model.module.get_input_embeddings().weight.shape[0]
    tokens = torch.randint(vocabulary, (9,), generator=torch.Generator().manual_seed(0)).tolist()
    rows = (tokens[:4], tokens, [*tokens[:4], *tokens[5:7]])
    prompts = [Rendered(str(row), tuple(row), {"instruction": (0, 1)}) for row in rows]
    yield padded_batch(prompts, model.pad_id, "left")
    yield padded_batch(prompts, model.pad_id, "right")
    if not model.architecture.sharing_problem:
        yield shared_batch([sorted(prompts, key=lambda prompt: prompt.token_ids)], model.pad_id)

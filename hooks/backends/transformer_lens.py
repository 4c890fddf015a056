"""The TransformerLens backend: a `TransformerBridge` around the model, raw weights, its own hook points.

The bridge is never put into compatibility mode: folded and centered weights are another residual stream. It needs no
tokenizer, as it is given token ids, the mask and the position ids. Before its first use on a model, each of its hook
points is compared with the reference backend, and those that read something else are refused. Bridges compute
attention by matrix products, as transformers' `eager` does; `sdpa` rounds otherwise.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformer_lens.model_bridge.sources import build_bridge_from_module

from hooks.activations import CaptureSpec
from hooks.backends import States
from hooks.backends.points import Point, Points
from hooks.backends.torch import BACKEND as REFERENCE
from hooks.backends.torch import model_inputs
from hooks.backends.twin import Twins, refuse_hooks, twin
from hooks.batching import Batch, padded_batch, shared_batch
from hooks.model import Model
from hooks.prompts import Rendered

_ROUNDING_STEPS = 8


class _LastPointReached(Exception):  # noqa: N818
    """Ends a forward pass from which nothing more is wanted."""


@dataclass(frozen=True)
class _Bridged:
    """A bridge, and why it does not give a site."""

    bridge: Any
    refused: Mapping[str, str] = field(default_factory=dict)


class TransformerLensBackend:
    """Reads states by the hook points of a TransformerBridge."""

    name = "transformer_lens"
    libraries: tuple[str, ...] = ("transformer_lens",)
    takes_shared = True

    def __init__(self) -> None:
        self._bridges = Twins(_build)

    def check(self, model: Model, sites: tuple[str, ...]) -> None:
        """Build the bridge, if there is none yet, and prove it.

        Raises:
            ValueError: TransformerLens does not support the model or one of the sites, or the model has hooks.
        """
        model.architecture.require(sites)
        refuse_hooks(model, self.name)
        refused = self._bridges.of(model).refused
        for site in sites:
            if site in refused:
                raise ValueError(
                    f"backend: TransformerLens gives no {site!r} of model type "
                    f"{model.module.config.model_type!r}: {refused[site]}; "
                    'use backend="torch"'
                )

    def read(self, model: Model, batch: Batch, spec: CaptureSpec, *, logits: bool) -> States:
        """Run one batch."""
        self.check(model, (*spec.sites, *(("final_norm",) if logits else ())))
        return _read(self._bridges.of(model).bridge, model, batch, spec, logits=logits)


def _read(bridge: Any, model: Model, batch: Batch, spec: CaptureSpec, *, logits: bool) -> States:
    points = Points(model, batch, spec, logits=logits)
    rows: dict[Point, Tensor] = {}

    def hook(point: Point) -> Any:
        def record(states: Tensor, hook: Any) -> None:
            rows[point] = points.rows(states)
            if point == points.order[-1]:
                raise _LastPointReached

        return record

    inputs = model_inputs(model, batch)
    token_ids = inputs.pop("input_ids")
    hooks = [(_hook_name(point), hook(point)) for point in points.order]
    with torch.inference_mode(), bridge.hooks(fwd_hooks=hooks), suppress(_LastPointReached):
        bridge(token_ids, return_type=None, **inputs)
    for point in points.order:
        if point not in rows:
            raise RuntimeError(f"its hook point {_hook_name(point)} never fired")
    return points.states(rows)


def _hook_name(point: Point) -> str:
    site, layer = point
    return "ln_final.hook_out" if site == "final_norm" else f"blocks.{layer}.hook_{site}"


def _build(model: Model, module: nn.Module) -> _Bridged:
    """Put a bridge into a twin of the model, and find what it gives."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bridge = build_bridge_from_module(
                module, type(module).__name__, hf_config=module.config
            )
        return _Bridged(bridge, _prove(bridge, model))
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"backend: TransformerLens cannot run model type {model.module.config.model_type!r}: {reason}; "
            'use backend="torch"'
        ) from error


def _prove(bridge: Any, model: Model) -> dict[str, str]:
    """Return the sites at which the bridge has no hook point or differs from the reference, with the reasons."""
    if model.dtype != torch.float32:
        # In half precision sdpa and eager attention differ by more than a wrong hook point might.
        eager: Any = twin(model.module)
        eager.set_attn_implementation("eager")
        model = Model.from_module(
            eager, model.tokenizer, name=model.name, weights_id=model.weights_id
        )
    refused = {}
    for site in model.architecture.sites:
        points = [(site, layer) for layer in range(model.n_layers)]
        if site != "embed" and any(bridge.get_hook_point(_hook_name(p)) is None for p in points):
            refused[site] = "it has no such hook point"
    sites = tuple(site for site in model.architecture.sites if site not in refused)
    spec = CaptureSpec(sites=sites).resolve(model.n_layers)
    for batch in _batches(model):
        ours = _read(bridge, model, batch, spec, logits=False).sites
        theirs = REFERENCE.read(model, batch, spec, logits=False).sites
        for site in sites:
            largest = theirs[site].abs().amax(-1, keepdim=True).clamp(min=1.0)
            error = float(((ours[site] - theirs[site]).abs() / largest).max())
            if not error <= max(5e-5, _ROUNDING_STEPS * torch.finfo(model.dtype).eps):
                refused.setdefault(site, f"its hook point is off by {error:.0e}")
    return refused


def _batches(model: Model) -> Iterator[Batch]:
    """Yield three prompts, two of which share a prefix, in every layout that the model may be given."""
    vocabulary = model.module.get_input_embeddings().weight.shape[0]
    tokens = torch.randint(vocabulary, (9,), generator=torch.Generator().manual_seed(0)).tolist()
    rows = (tokens[:4], tokens, [*tokens[:4], *tokens[5:7]])
    prompts = [Rendered(str(row), tuple(row), {"instruction": (0, len(row))}) for row in rows]
    yield padded_batch(prompts, model.pad_id, "left")
    yield padded_batch(prompts, model.pad_id, "right")
    if not model.architecture.sharing_problem:
        yield shared_batch([sorted(prompts, key=lambda prompt: prompt.token_ids)], model.pad_id)


BACKEND = TransformerLensBackend()

"""The TransformerLens backend: a `TransformerBridge` around the model, raw weights, its own hook points.

The bridge is never put into compatibility mode: folded and centered weights are another residual stream. It needs no
tokenizer, as it is given token ids, the mask and the position ids. Before its first use on a model, each of its hook
points is compared with the reference backend, and those that read something else are refused. Bridges compute
attention by matrix products, as transformers' `eager` does; `sdpa` rounds otherwise.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformer_lens.model_bridge.sources import build_bridge_from_module

from hooks.activations import CaptureSpec
from hooks.agreement import largest_allowed
from hooks.backends import States
from hooks.backends.points import Point, Points
from hooks.backends.proof import Proved, gaps
from hooks.backends.torch import model_inputs
from hooks.backends.twin import Twins, attention_of, refuse_hooks, twin
from hooks.batching import Batch
from hooks.model import Model


class _LastPointReached(Exception):  # noqa: N818
    """Ends a forward pass from which nothing more is wanted."""


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
        self._bridges.of(model).require("TransformerLens", model, sites)

    def read(self, model: Model, batch: Batch, spec: CaptureSpec, *, logits: bool) -> States:
        """Run one batch."""
        self.check(model, (*spec.sites, *(("final_norm",) if logits else ())))
        return _read(self._bridges.of(model).wrapper, model, batch, spec, logits=logits)


def _read(bridge: Any, model: Model, batch: Batch, spec: CaptureSpec, *, logits: bool) -> States:
    points = Points(model, batch, spec, logits=logits)
    rows: dict[Point, Tensor] = {}

    def hook(point: Point) -> Any:
        def record(states: Tensor, hook: Any) -> None:
            rows[point] = points.rows(point, states)
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


def _build(model: Model, module: nn.Module) -> Proved[Any]:
    """Put a bridge into a twin of the model, and find what it gives."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bridge = build_bridge_from_module(
                module, type(module).__name__, hf_config=module.config
            )
        return Proved(bridge, _prove(bridge, model))
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"backend: TransformerLens cannot run model type {model.module.config.model_type!r}: {reason}; "
            'use backend="torch"'
        ) from error


def _prove(bridge: Any, model: Model) -> dict[str, str]:
    """Return the sites at which the bridge has no hook point or differs from the reference, with the reasons."""
    refused = {}
    for site in model.architecture.sites:
        points = [(site, layer) for layer in range(model.n_layers)]
        if site != "embed" and any(bridge.get_hook_point(_hook_name(p)) is None for p in points):
            refused[site] = "it has no such hook point"
    sites = tuple(site for site in model.architecture.sites if site not in refused)
    read = partial(_read, bridge, model, logits=False)
    half = model.dtype != torch.float32
    allowed = largest_allowed(model.dtype)
    # In half precision sdpa rounds otherwise, by almost as much as a hook point can be wrong: so these are held
    # against eager attention, and tightly. What eager attention computes must then be roughly what sdpa does.
    same = _eager(model) if half and attention_of(model.module) != "eager" else model
    wrong = {
        site: gap
        for site, gap in gaps(read, same, sites).items()
        if not gap.explained or (half and gap.difference > allowed / 2)
    }
    if same is not model:
        loaded = gaps(read, model, sites)
        wrong |= {site: gap for site, gap in loaded.items() if not gap.difference <= allowed}
    return refused | {
        site: f"its hook point is off by {gap.difference:.0e}" for site, gap in wrong.items()
    }


def _eager(model: Model) -> Model:
    eager: Any = twin(model.module)
    eager.set_attn_implementation("eager")
    return Model.from_module(eager, model.tokenizer, name=model.name, weights_id=model.weights_id)


BACKEND = TransformerLensBackend()

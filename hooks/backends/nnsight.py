"""The nnsight backend: one trace a batch, run here or (untested) on NDIF's servers.

nnsight serves values in the order of the forward pass alone, so the points are asked for in that order; only the rows
of named positions leave the trace, and `tracer.stop()` ends the pass after the last point. It knows modules, not
sites: the modules are those that the architecture has proved.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import nnsight
import torch
from nnsight import TransformersModel
from nnsight.intervention.interleaver import OutOfOrderError
from torch import Tensor, nn

from hooks.activations import CaptureSpec
from hooks.backends import States
from hooks.backends.points import Point, Points, execution_order
from hooks.backends.proof import Proved, gaps
from hooks.backends.torch import model_inputs
from hooks.backends.twin import Twins, refuse_hooks
from hooks.batching import Batch
from hooks.model import Model


class NnsightBackend:
    """Reads states inside an nnsight trace.

    Attributes:
        name: `nnsight`, with `(remote)` where another machine computes.
        remote: False to run here; True to run on NDIF (needs its key and a model that it serves under the name the
            model was loaded by), or what else `TransformersModel.trace(remote=...)` takes.
    """

    libraries: tuple[str, ...] = ("nnsight",)
    takes_shared = True

    def __init__(self, remote: bool | str = False) -> None:
        self.name = "nnsight (remote)" if remote else "nnsight"
        self.remote = remote
        self._wrapped: Twins[Proved[Any]] = Twins(self._build)

    def check(self, model: Model, sites: tuple[str, ...]) -> None:
        """Wrap the model, if it is not wrapped yet, and prove what is read here; what runs elsewhere is not proved.

        Raises:
            ValueError: the model lacks one of the sites, or nnsight reads something else there, or the model has
                hooks, which nnsight would see in part only.
        """
        model.architecture.require(sites)
        refuse_hooks(model, self.name)
        self._wrapped.of(model).require("nnsight", model, sites)

    def read(self, model: Model, batch: Batch, spec: CaptureSpec, *, logits: bool) -> States:
        """Run one batch in one trace."""
        self.check(model, spec.sites)
        wrapped = self._wrapped.of(model).wrapper
        return _read(wrapped, model, batch, spec, logits=logits, remote=self.remote)

    def _build(self, model: Model, module: nn.Module) -> Proved[Any]:
        wrapped = _wrap(model, module)
        if self.remote:  # Another machine may compute in another type, and each trace waits for it.
            return Proved(wrapped)
        read = partial(_read, wrapped, model, logits=False, remote=False)
        refused = {
            site: f"it is off by {gap.difference:.0e}"
            for site, gap in gaps(read, model, model.architecture.sites).items()
            if not gap.explained
        }
        return Proved(wrapped, refused)


def _read(
    wrapped: Any,
    model: Model,
    batch: Batch,
    spec: CaptureSpec,
    *,
    logits: bool,
    remote: bool | str,
) -> States:
    points = Points(model, batch, spec, logits=logits)
    wanted = sorted({part for p in points.order for part in _parts(p)}, key=execution_order)
    paths = {id(module): path for path, module in model.module.named_modules()}
    steps = [
        (wrapped.get(paths[id(_module(model, point))]), point[0] == "resid_pre") for point in wanted
    ]
    inputs = model_inputs(model, batch)
    try:
        with torch.inference_mode():
            shapes, values = _trace(wrapped, inputs, steps, points.flat, remote)
    except OutOfOrderError as error:
        raise ValueError(
            f"backend: nnsight cannot read {', '.join(spec.sites)} of model type "
            f"{model.module.config.model_type!r}: its modules run in another order; "
            'use backend="torch"'
        ) from error
    for point, shape in zip(wanted, shapes, strict=False):  # The last one may have ended the trace.
        points.check(point, shape)
    rows: dict[Point, Tensor] = dict(zip(wanted, values, strict=True))
    for site, layer in points.order:
        if site == "resid_mid":
            added = rows["attn_out", layer]
            rows[site, layer] = rows["resid_pre", layer].to(added.device) + added
    return points.states(rows)


def _trace(
    wrapped: Any,
    inputs: dict[str, Any],
    steps: list[tuple[Any, bool]],
    flat: Tensor,
    remote: bool | str,
) -> tuple[list[tuple[int, ...]], list[Tensor]]:
    """Copy rows out at (module, its input?) in turn, up to the first value that is too small, and return all shapes.

    The block may travel: it uses nothing but torch and nnsight.
    """
    n_slots = inputs["input_ids"].numel()
    with wrapped.trace(remote=remote, **inputs) as tracer:
        shapes: list[tuple[int, ...]] = nnsight.save([])
        rows: list[Tensor] = nnsight.save([])
        for module, reads_input in steps:
            value = module.input if reads_input else module.output
            states = value[0] if isinstance(value, tuple | list) else value
            shapes.append(tuple(states.shape))
            states = states.reshape(-1, states.shape[-1])
            if len(states) != n_slots:
                break
            rows.append(states.index_select(0, flat.to(states.device)))
        tracer.stop()
    return shapes, rows


def _wrap(model: Model, module: nn.Module) -> Any:
    # A copy, since nnsight sets the pad token and the padding side; and the device, since transformers' pipeline
    # would otherwise move the (shared) parameters to the first GPU.
    device = {} if hasattr(module, "hf_device_map") else {"device": model.device}
    return TransformersModel(module, tokenizer=copy.deepcopy(model.tokenizer), **device)


def _parts(point: Point) -> list[Point]:
    """Return the points that module inputs and outputs are read at: `resid_mid` is a sum."""
    site, layer = point
    return [("resid_pre", layer), ("attn_out", layer)] if site == "resid_mid" else [point]


def _module(model: Model, point: Point) -> nn.Module:
    site, layer = point
    block = model.architecture.blocks[layer]
    if site == "final_norm":
        module = model.architecture.final_norm
    elif site in ("resid_pre", "resid_post"):
        module = block.module
    else:
        module = block.attention if site == "attn_out" else block.mlp
    assert module is not None
    return module


BACKEND = NnsightBackend()

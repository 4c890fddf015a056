"""The reference backend: PyTorch hooks on the Hugging Face module.

Only the rows of named positions are copied out of each layer's output, inside the hook, so that the
output itself is freed as the pass goes on. The pass ends after the last block that is wanted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import torch
from torch import Tensor, nn

from hooks.activations import LAYERLESS_SITES, CaptureSpec
from hooks.architecture import Architecture, block_input, first_tensor
from hooks.backends import States
from hooks.batching import Batch, Gather
from hooks.model import Model

_BRANCH_SITES = frozenset({"resid_mid", "attn_out", "mlp_out"})


class _LastBlockReached(Exception):  # noqa: N818
    """Ends a forward pass from which nothing more is wanted."""


class TorchBackend:
    """Reads states by forward hooks."""

    def read(self, model: Model, batch: Batch, spec: CaptureSpec, *, logits: bool) -> States:
        """Run the backbone over one batch."""
        architecture = model.architecture
        gather = Gather.of(batch, spec.positions, model.device)
        recorder = _Recorder(gather, batch.token_ids.shape)
        recorder.watch(architecture, spec)
        slots = _Recorder(Gather.of(batch, ("prompt_last",), model.device), batch.token_ids.shape)
        if logits:
            assert architecture.final_norm is not None
            slots.output(architecture.final_norm, "final_norm", 0)
        elif "final_norm" not in spec.sites:
            recorder.stop_after(architecture.blocks[_last_layer(spec)].module)
        with ExitStack() as stack:
            for handle in (*recorder.register(), *slots.register()):
                stack.callback(handle.remove)
            stack.enter_context(model.reading(batch))
            stack.enter_context(torch.inference_mode())
            with suppress(_LastBlockReached):
                architecture.backbone(**model_inputs(model, batch))
            slot_logits = None
            if logits:
                assert architecture.readout is not None
                slot_logits = architecture.readout(slots.rows["final_norm", 0])
        # Cloned outside inference mode: its tensors could not be trained on.
        sites = {
            site: torch.stack(
                [recorder.means(site, layer).cpu() for layer in _layers(spec, site)], dim=1
            ).clone()
            for site in spec.sites
        }
        return States(sites, None if slot_logits is None else slot_logits.clone())


def model_inputs(model: Model, batch: Batch) -> dict[str, Any]:
    """Return the keyword arguments that a backbone runs a batch with."""
    inputs: dict[str, Any] = {
        "input_ids": batch.token_ids.to(model.device),
        "attention_mask": batch.attention_mask(model.dtype).to(model.device),
        "use_cache": False,
    }
    if model.architecture.takes_position_ids:
        inputs["position_ids"] = batch.position_ids.to(model.device)
    return inputs


def _layers(spec: CaptureSpec, site: str) -> Sequence[int]:
    assert not isinstance(spec.layers, str)
    return (0,) if site in LAYERLESS_SITES else spec.layers


def _last_layer(spec: CaptureSpec) -> int:
    return max(max(_layers(spec, site)) for site in spec.sites)


class _Recorder:
    """Collects the wanted rows of every (site, layer) during one forward pass."""

    def __init__(self, gather: Gather, shape: Sequence[int]) -> None:
        self.rows: dict[tuple[str, int], Tensor] = {}
        self._gather = gather
        self._shape = tuple(shape)
        self._before: dict[nn.Module, list[Callable[[Tensor], None]]] = defaultdict(list)
        self._after: dict[nn.Module, list[Callable[[Tensor], None]]] = defaultdict(list)

    def means(self, site: str, layer: int) -> Tensor:
        """Return the states of a site and layer, `[item, position, d_model]`."""
        return self._gather.means(self.rows[site, layer])

    def watch(self, architecture: Architecture, spec: CaptureSpec) -> None:
        """Ask for every site and layer of a resolved spec."""
        for site in spec.sites:
            for layer in _layers(spec, site):
                block = architecture.blocks[layer]
                if site in ("embed", "resid_pre"):
                    self.input(block.module, site, layer)
                elif site == "resid_post":
                    self.output(block.module, site, layer)
                elif site == "final_norm":
                    assert architecture.final_norm is not None
                    self.output(architecture.final_norm, site, layer)
                else:
                    assert block.attention is not None
                    assert block.mlp is not None
                    if site == "resid_mid":
                        self.sum(block.module, block.attention, site, layer)
                    else:
                        module = block.attention if site == "attn_out" else block.mlp
                        self.output(module, site, layer)

    def input(self, module: nn.Module, site: str, layer: int) -> None:
        """Record what a block is called with."""
        self._before[module].append(lambda states: self._record(states, site, layer))

    def output(self, module: nn.Module, site: str, layer: int) -> None:
        """Record what a module returns."""
        self._after[module].append(lambda states: self._record(states, site, layer))

    def sum(self, block: nn.Module, attention: nn.Module, site: str, layer: int) -> None:
        """Record a block's input plus what its attention adds, in the model's own dtype."""

        def add(states: Tensor) -> None:
            before = self.rows[site, layer]
            self._record(states, site, layer)
            self.rows[site, layer] = before + self.rows[site, layer]

        self.input(block, site, layer)
        self._after[attention].append(add)

    def stop_after(self, module: nn.Module) -> None:
        """End the pass as soon as a module has returned."""

        def stop(_: Tensor) -> None:
            raise _LastBlockReached

        self._after[module].append(stop)

    def register(self) -> list[Any]:
        """Put the hooks in place and return their handles."""
        handles: list[Any] = []
        for module, actions in self._before.items():
            handles.append(module.register_forward_pre_hook(_input_hook(actions), with_kwargs=True))
        for module, actions in self._after.items():
            handles.append(module.register_forward_hook(_output_hook(actions)))
        return handles

    def _record(self, states: Tensor, site: str, layer: int) -> None:
        rows, slots = self._shape
        shapes: list[tuple[int, ...]] = [(rows, slots)]
        if site == "mlp_out":
            shapes.append((rows * slots,))  # OPT flattens the rows around its MLP.
        if tuple(states.shape[:-1]) not in shapes:
            raise RuntimeError(
                f"{site} of layer {layer} has shape {tuple(states.shape)}, "
                f"not ({rows}, {slots}, d_model)"
            )
        self.rows[site, layer] = self._gather.rows(states)


def _input_hook(actions: Sequence[Callable[[Tensor], None]]) -> Callable[..., None]:
    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        for action in actions:
            action(block_input(args, kwargs))

    return hook


def _output_hook(actions: Sequence[Callable[[Tensor], None]]) -> Callable[..., None]:
    def hook(_: nn.Module, __: Any, output: Any) -> None:
        for action in actions:
            action(first_tensor(output))

    return hook


BACKEND = TorchBackend()

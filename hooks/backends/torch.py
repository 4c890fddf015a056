"""The reference backend: PyTorch hooks on the Hugging Face module.

Only the rows of named positions are copied out of each layer's output, inside the hook and on the
device, so that the output itself is freed as the pass goes on. The pass ends after the last block
that is wanted, and the unembedding is applied to answer slots alone, where a readout is wanted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import torch
from torch import Tensor, nn

from hooks.activations import LAYERLESS_SITES, Activations, CaptureSpec
from hooks.architecture import Block, block_input, first_tensor
from hooks.backends import States
from hooks.batching import Batch
from hooks.gather import Gather
from hooks.model import Model
from hooks.transfer import to_host

_SLOT = CaptureSpec(sites=("final_norm",), layers=(0,), positions=("prompt_last",))


class _LastBlockReached(Exception):  # noqa: N818
    """Ends a forward pass from which nothing more is wanted."""


@contextmanager
def stopping_after(model: Model, spec: CaptureSpec) -> Iterator[None]:
    """Let a forward pass inside the block end behind the last decoder block that is read.

    It is read by a resolved spec or by an attachment. A pass for the final norm goes on to its end.
    """
    last = _last_block(model, spec)
    if last is None:
        yield
        return
    handle = last.register_forward_hook(_stop)
    try:
        with suppress(_LastBlockReached):
            yield
    finally:
        handle.remove()


class TorchBackend:
    """Reads states by forward hooks."""

    name = "torch"
    libraries: tuple[str, ...] = ()
    takes_shared = True

    def check(self, model: Model, sites: tuple[str, ...]) -> None:
        """Raise ValueError, with the reason, if the model lacks one of the sites."""
        model.architecture.require(sites)

    def read(self, model: Model, batch: Batch, spec: CaptureSpec, *, logits: bool) -> States:
        """Run the backbone over one batch."""
        architecture = model.architecture
        recorder = Recorder(model, batch, spec)
        slots = Recorder(model, batch, _SLOT) if logits else None
        with ExitStack() as stack:
            stack.enter_context(recorder.watching())
            if slots is not None:
                stack.enter_context(slots.watching())
            stack.enter_context(model.reading(batch))
            stack.enter_context(torch.inference_mode())
            stack.enter_context(serving(model, batch))
            with nullcontext() if logits else stopping_after(model, spec):
                architecture.backbone(**model_inputs(model, batch))
            recorder.check_filled()
            slot_logits = None
            if slots is not None:
                slots.check_filled()
                assert architecture.readout is not None
                states = slots.sites["final_norm"][:, 0, 0].to(model.dtype)
                slot_logits = architecture.readout(states)
        # Cloned outside inference mode: its tensors could not be trained on.
        return States(recorder.sites, None if slot_logits is None else slot_logits.clone())


@contextmanager
def serving(model: Model, batch: Batch) -> Iterator[None]:
    """Give attachments what they want of a pass over a batch, which ends with the block."""
    recorders = [Recorder(model, batch, attachment.spec) for attachment in model.attachments]
    with ExitStack() as stack:
        for recorder in recorders:
            stack.enter_context(recorder.watching())
        yield
    for attachment, recorder in zip(model.attachments, recorders, strict=True):
        attachment.receive(recorder.activations())


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


def _last_block(model: Model, spec: CaptureSpec) -> nn.Module | None:
    """The block behind which nothing more is wanted, be it by attachments; None where the final norm is."""
    specs = (spec, *(attachment.spec for attachment in model.attachments))
    wanted = [(one, site) for one in specs for site in one.sites]
    if any(site == "final_norm" for _, site in wanted):
        return None
    return model.architecture.blocks[max(max(_layers(*one)) for one in wanted)].module


def _stop(*_: Any) -> None:
    raise _LastBlockReached


class Recorder:
    """Copies the wanted states of every (site, layer) while a model reads a batch.

    Attributes:
        sites: per site the states, `[item, layer, position, d_model]`, filled by the pass. Nothing else is kept: the
            rows of named positions are gathered, averaged and put in place inside the hook.
    """

    def __init__(self, model: Model, batch: Batch, spec: CaptureSpec) -> None:
        self._architecture = model.architecture
        self._spec = spec
        self._ids = batch.ids
        self._gather = Gather.of(batch, spec.positions, model.device)
        n_items, n_positions = self._gather.shape
        self.sites: dict[str, Tensor] = {
            site: torch.empty(
                (n_items, spec.n_layers_of(site), n_positions, model.d_model),
                dtype=torch.float32,
                device=model.device,
            )
            for site in spec.sites
        }
        self._missing = {
            (site, index) for site in spec.sites for index in range(spec.n_layers_of(site))
        }
        self._before: dict[nn.Module, list[Callable[[Tensor], None]]] = defaultdict(list)
        self._after: dict[nn.Module, list[Callable[[Tensor], None]]] = defaultdict(list)
        for site in spec.sites:
            for index, layer in enumerate(_layers(spec, site)):
                self._watch(site, layer, index)

    def check_filled(self) -> None:
        """Raise RuntimeError if a pass came by without one of the states."""
        for site, index in sorted(self._missing):
            raise RuntimeError(f"{site} number {index} did not pass by; its module was not called")

    def activations(self) -> Activations:
        """Return what a pass has filled in, on the CPU; RuntimeError if something is missing."""
        self.check_filled()
        assert not isinstance(self._spec.layers, str)
        sites = to_host(self.sites)()
        return Activations(self._ids, sites, self._spec.layers, self._spec.positions)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record whatever passes inside the block."""
        with ExitStack() as stack:
            for module, actions in self._before.items():
                hook = _input_hook(actions)
                handle = module.register_forward_pre_hook(hook, with_kwargs=True)
                stack.callback(handle.remove)
            for module, actions in self._after.items():
                stack.callback(module.register_forward_hook(_output_hook(actions)).remove)
            yield

    def _watch(self, site: str, layer: int, index: int) -> None:
        block = self._architecture.blocks[layer]

        def record(states: Tensor) -> None:
            self._put(self._gather.rows(states, site, layer), site, index)

        if site in ("embed", "resid_pre"):
            self._before[block.module].append(record)
        elif site == "resid_post":
            self._after[block.module].append(record)
        elif site == "final_norm":
            assert self._architecture.final_norm is not None
            self._after[self._architecture.final_norm].append(record)
        elif site == "mlp_out":
            assert block.mlp is not None
            self._after[block.mlp].append(record)
        elif site == "attn_out":
            assert block.attention is not None
            self._after[block.attention].append(record)
        else:
            self._watch_between(block, layer, index)

    def _watch_between(self, block: Block, layer: int, index: int) -> None:
        """Record a block's input plus what its attention adds, in the model's own dtype."""
        entered: list[Tensor] = []

        def remember(states: Tensor) -> None:
            entered[:] = [self._gather.rows(states, "resid_mid", layer)]

        def add(states: Tensor) -> None:
            added = self._gather.rows(states, "resid_mid", layer)
            self._put(entered.pop().to(added.device) + added, "resid_mid", index)

        assert block.attention is not None
        self._before[block.module].append(remember)
        self._after[block.attention].append(add)

    def _put(self, rows: Tensor, site: str, index: int) -> None:
        self.sites[site][:, index].copy_(self._gather.means(rows))
        self._missing.discard((site, index))


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

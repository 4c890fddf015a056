"""Change the residual stream while a model reads or writes: steer, ablate, patch.

Interventions act at a site of `hooks.SITES` and at named positions of each prompt, or everywhere
(then also on every new token). They hold inside a `with` block, compose in the order in which they
are given, and are always undone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hooks.activations import LAYERLESS_SITES, CaptureSpec
from hooks.architecture import block_input, first_tensor
from hooks.model import Model

Positions = tuple[str, ...] | Literal["all"]

ZERO_WARNING = (
    "ablation to zero adds the direction wherever its mean component is not zero; "
    "prefer the mean state"
)


class Intervention(Protocol):
    """Replaces states at one site and layer."""

    @property
    def site(self) -> str:
        """A name out of `SITES`."""
        ...

    @property
    def layer(self) -> int:
        """The block; negative counts from the end, and is ignored at sites without layers."""
        ...

    @property
    def positions(self) -> Positions:
        """Named positions, or "all" tokens."""
        ...

    def apply(
        self, states: Float[Tensor, "token d_model"], id: str | None
    ) -> Float[Tensor, "token d_model"]:
        """Return new states for tokens of the prompt `id` (None: of any prompts)."""
        ...


@dataclass(frozen=True)
class Steer:
    """Add `coefficient * direction`; the direction is used at the length it has."""

    site: str
    layer: int
    direction: Float[Tensor, "d_model"]
    coefficient: float = 1.0
    positions: Positions = "all"

    def apply(
        self, states: Float[Tensor, "token d_model"], id: str | None
    ) -> Float[Tensor, "token d_model"]:
        """Add the direction to every token."""
        return states + self.coefficient * self.direction.to(states)


@dataclass(frozen=True)
class Ablate:
    """Replace the state, or its component along a direction, by that of the mean state.

    Along a direction this is affine ablation. Projection to zero *adds* the direction wherever the mean component is
    not zero, so it must be asked for by `to_zero=True`, and warns.

    Attributes:
        direction: of any length; None ablates the whole state.
        mean: the mean state at this site, layer and position over a reference set.
        to_zero: take the component (or the whole state) away instead.
    """

    site: str
    layer: int
    direction: Float[Tensor, "d_model"] | None = None
    mean: Float[Tensor, "d_model"] | None = None
    positions: Positions = "all"
    to_zero: bool = False

    def __post_init__(self) -> None:
        if self.direction is not None and not float(self.direction.norm()) > 0:
            raise ValueError("direction: has no length; ablation needs a direction")
        if (self.mean is None) != self.to_zero:
            raise ValueError("mean: give the mean state, or to_zero=True, and not both")
        if self.to_zero:
            warnings.warn(ZERO_WARNING, stacklevel=3)

    def apply(
        self, states: Float[Tensor, "token d_model"], id: str | None
    ) -> Float[Tensor, "token d_model"]:
        """Replace every token's state or component."""
        mean = torch.zeros_like(states[:1]) if self.mean is None else self.mean.to(states)[None]
        if self.direction is None:
            return mean.expand_as(states)
        unit = (self.direction / self.direction.norm()).to(states)
        ablated: Tensor = states + ((mean - states) @ unit)[:, None] * unit
        return ablated


@dataclass(frozen=True)
class Patch:
    """Replace states by given ones, by the id of the prompt that receives them.

    Prompts without a vector are left as they are, and so is every new token.
    """

    site: str
    layer: int
    vectors: Mapping[str, Float[Tensor, "d_model"]]
    positions: Positions

    def apply(
        self, states: Float[Tensor, "token d_model"], id: str | None
    ) -> Float[Tensor, "token d_model"]:
        """Put the prompt's vector at every token."""
        vector = None if id is None else self.vectors.get(id)
        return states if vector is None else vector.to(states).expand_as(states)


@contextmanager
def intervene(model: Model, interventions: Sequence[Intervention]) -> Iterator[None]:
    """Apply interventions to everything that the model computes inside the block.

    Named positions are those of the prompts given to `capture`, `option_logprobs` or `generate`;
    there they switch prefix sharing off, since prompts must then be treated apart.

    Raises:
        ValueError: an unknown site, layer or position, or a vector of another width.
    """
    for intervention in interventions:
        _check(model, intervention)
    n_apart = sum(_treats_prompts_apart(intervention) for intervention in interventions)
    with ExitStack() as stack:
        model.n_apart += n_apart
        active = tuple(interventions)
        model.interventions.append(active)
        stack.callback(_forget, model, active, n_apart)
        for intervention in interventions:
            for handle in _register(model, intervention):
                stack.callback(handle.remove)
        yield


def _treats_prompts_apart(intervention: Intervention) -> bool:
    return intervention.positions != "all" or isinstance(intervention, Patch)


def _forget(model: Model, active: tuple[Intervention, ...], n_apart: int) -> None:
    model.n_apart -= n_apart
    # In place: a copy of the record (`dataclasses.replace`) holds the same list.
    model.interventions[:] = [others for others in model.interventions if others is not active]


def _check(model: Model, intervention: Intervention) -> None:
    layerless = intervention.site in LAYERLESS_SITES
    named = () if intervention.positions == "all" else intervention.positions
    spec = CaptureSpec(
        sites=(intervention.site,),
        layers=(0 if layerless else intervention.layer,),
        positions=named or ("prompt_last",),
    ).resolve(model.n_layers)
    model.architecture.require(spec.sites)
    vectors: dict[str, Tensor | None] = {
        name: getattr(intervention, name, None) for name in ("direction", "mean")
    }
    vectors |= getattr(intervention, "vectors", {})
    for name, vector in vectors.items():
        if vector is not None and tuple(vector.shape) != (model.d_model,):
            raise ValueError(
                f"{type(intervention).__name__}: {name!r} has shape {tuple(vector.shape)}, "
                f"not ({model.d_model},)"
            )


def _register(model: Model, intervention: Intervention) -> list[Any]:
    architecture = model.architecture
    site = intervention.site
    block = architecture.blocks[0 if site in LAYERLESS_SITES else intervention.layer]

    def change(states: Tensor) -> Tensor:
        return _changed(model, intervention, states)

    if site in ("embed", "resid_pre"):
        return [_change_input(block.module, change)]
    if site == "resid_post":
        return [_change_output(block.module, change)]
    if site == "final_norm":
        assert architecture.final_norm is not None
        return [_change_output(architecture.final_norm, change)]
    assert block.attention is not None
    assert block.mlp is not None
    if site == "mlp_out":
        return [_change_output(block.mlp, change)]
    if site == "attn_out":
        return [_change_output(block.attention, change)]
    return _change_between(block.module, block.attention, change)


def _change_input(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Any:
    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        changed = change(block_input(args, kwargs))
        if args:
            return (changed, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": changed}

    return module.register_forward_pre_hook(hook, with_kwargs=True)


def _change_output(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Any:
    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        changed = change(first_tensor(output))
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    return module.register_forward_hook(hook)


def _change_between(
    block: nn.Module, attention: nn.Module, change: Callable[[Tensor], Tensor]
) -> list[Any]:
    """Change the stream between attention and MLP by what attention adds to it."""
    entered: list[Tensor] = []

    def remember(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        entered[:] = [block_input(args, kwargs)]

    def change_sum(added: Tensor) -> Tensor:
        before = entered.pop().reshape(added.shape).to(added.device)
        return change(before + added) - before

    return [
        block.register_forward_pre_hook(remember, with_kwargs=True),
        _change_output(attention, change_sum),
    ]


def _changed(model: Model, intervention: Intervention, states: Tensor) -> Tensor:
    """Return the states `[row, slot, d_model]` (or rows flattened) after an intervention."""
    flat = states.reshape(-1, states.shape[-1])
    if not _treats_prompts_apart(intervention):
        return intervention.apply(flat, None).reshape(states.shape)
    reading = model.current
    if reading is None:
        raise ValueError(
            f"positions: {intervention.positions!r} of a prompt mean nothing in a bare forward "
            "pass; use capture(), option_logprobs() or generate()"
        )
    if reading.prompts_read:
        return states
    if reading.batch.shared:
        raise RuntimeError("prompts that share prefixes cannot be changed apart; capture anew")
    changed = flat.clone()
    for index, prompt in enumerate(reading.batch.prompts):
        for position in _positions(intervention):
            slots = torch.tensor(reading.batch.flat_slots(index, position), device=flat.device)
            changed[slots] = intervention.apply(changed[slots], prompt.id)
    return changed.reshape(states.shape)


def _positions(intervention: Intervention) -> tuple[str | None, ...]:
    """Return the positions to visit; None stands for the whole prompt."""
    return (None,) if intervention.positions == "all" else tuple(intervention.positions)

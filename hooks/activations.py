"""The records that everything else speaks: which states to capture, and the states themselves.

A *site* is a named place in the residual stream (the names are TransformerLens's):

| site | what it is | has layers |
|---|---|---|
| `embed` | what enters the first block (token embedding, with learned positions and scaling) | no |
| `resid_pre` | the residual stream as block i reads it | yes |
| `attn_out` | what attention adds to the stream, after a post-norm where there is one | yes |
| `resid_mid` | the stream between attention and MLP; parallel blocks have none | yes |
| `mlp_out` | what the MLP adds to the stream, after a post-norm where there is one | yes |
| `resid_post` | the output of block i, before any final norm | yes |
| `final_norm` | the last block's output through the final norm, as the unembedding reads it | no |

Activations never hold labels: those live beside them, keyed by item id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

SITES: tuple[str, ...] = (
    "embed",
    "resid_pre",
    "resid_mid",
    "resid_post",
    "attn_out",
    "mlp_out",
    "final_norm",
)
LAYERLESS_SITES: frozenset[str] = frozenset({"embed", "final_norm"})

FIXED_POSITIONS: tuple[str, ...] = (
    "mean_instruction",
    "instruction_last",
    "prompt_last",
    "quote_last",
)
POSITIONS_IN_WORDS = f"{', '.join(FIXED_POSITIONS)}, template_1, template_2, ..."
_TEMPLATE_POSITION = re.compile(r"template_([1-9][0-9]*)")


def is_id(item: object) -> bool:
    """Tell whether HDF5 and JSON take something as an id: a string without NUL or half characters."""
    return (
        isinstance(item, str)
        and "\0" not in item
        and not any(0xD800 <= ord(letter) <= 0xDFFF for letter in item)
    )


def template_offset(position: str) -> int | None:
    """Return k of the position name `template_k`, or None if it is another name."""
    match = _TEMPLATE_POSITION.fullmatch(position)
    return int(match.group(1)) if match else None


@dataclass(frozen=True)
class CaptureSpec:
    """Which states to keep: every site at every layer (where it has layers) and position."""

    sites: tuple[str, ...] = ("resid_post",)
    """Names out of `SITES`."""
    layers: tuple[int, ...] | Literal["all"] = "all"
    """Block numbers from 0; negative ones count from the end."""
    positions: tuple[str, ...] = ("prompt_last",)
    """`instruction_last`, `mean_instruction`, `template_1` ..., `prompt_last`, `quote_last`."""

    def __post_init__(self) -> None:
        for name in ("sites", "positions"):
            value = getattr(self, name)
            if isinstance(value, str) or not value:
                raise ValueError(f"{name}: {value!r} is not a non-empty tuple of names")
            if len(set(value)) < len(value):
                raise ValueError(f"{name}: {value!r} names one of them twice")
            object.__setattr__(self, name, tuple(value))
        for site in self.sites:
            if site not in SITES:
                raise ValueError(f"sites: unknown site {site!r}; choose from {', '.join(SITES)}")
        for position in self.positions:
            if position not in FIXED_POSITIONS and template_offset(position) is None:
                raise ValueError(
                    f"positions: unknown position {position!r}; choose from {POSITIONS_IN_WORDS}"
                )
        if isinstance(self.layers, str):
            if self.layers != "all":
                raise ValueError(f'layers: {self.layers!r} is neither "all" nor a tuple of numbers')
        elif isinstance(self.layers, int):
            raise ValueError(f'layers: {self.layers!r} is neither "all" nor a tuple of numbers')
        else:
            object.__setattr__(self, "layers", tuple(self.layers))

    def resolve(self, n_layers: int) -> CaptureSpec:
        """Return the same spec with explicit, sorted, non-negative layers of an n-layer model.

        Raises:
            ValueError: a layer that the model does not have, or no layer at all.
        """
        if self.layers == "all":
            return replace(self, layers=tuple(range(n_layers)))
        if not self.layers:
            raise ValueError('layers: empty; name at least one layer or "all"')
        for layer in self.layers:
            if isinstance(layer, bool) or not isinstance(layer, int):
                raise ValueError(f"layers: {layer!r} is not a whole number")
            if not -n_layers <= layer < n_layers:
                raise ValueError(
                    f"layers: {layer} does not exist; this model has layers 0 to {n_layers - 1}"
                )
        return replace(self, layers=tuple(sorted({layer % n_layers for layer in self.layers})))

    def n_layers_of(self, site: str) -> int:
        """Length of a site's layer axis: 1 for `embed` and `final_norm`."""
        if site in LAYERLESS_SITES:
            return 1
        if isinstance(self.layers, str):
            raise ValueError('layers: still "all"; call resolve(n_layers) first')
        return len(self.layers)


@dataclass(frozen=True)
class Activations:
    """States of some items at prediction time: float32 tensors on the CPU.

    Attributes:
        ids: item ids, one a row.
        sites: per site an array over the items, the layers (length 1 where a site has none) and
            the positions.
        layers: the block numbers along the layer axis.
        positions: the names along the position axis.
        option_logprobs: per named option the log-probability of each item at its answer slot
            (`prompt_last`); empty unless asked for.
    """

    ids: tuple[str, ...]
    sites: Mapping[str, Float[Tensor, "item layer position d_model"]]
    layers: tuple[int, ...]
    positions: tuple[str, ...]
    option_logprobs: Mapping[str, Float[Tensor, "item"]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for site, states in self.sites.items():
            n_layers = 1 if site in LAYERLESS_SITES else len(self.layers)
            wanted = (len(self.ids), n_layers, len(self.positions))
            if states.ndim != 4 or tuple(states.shape[:3]) != wanted:
                raise ValueError(
                    f"{site}: shape {tuple(states.shape)} is not (item, layer, position, d_model) "
                    f"= {(*wanted, 'd_model')}"
                )
            if states.dtype != torch.float32:
                raise ValueError(f"{site}: dtype {states.dtype} is not torch.float32")
        for option, logprobs in self.option_logprobs.items():
            if tuple(logprobs.shape) != (len(self.ids),):
                raise ValueError(
                    f"option_logprobs: {option!r} has shape {tuple(logprobs.shape)}, "
                    f"not ({len(self.ids)},)"
                )

    def __len__(self) -> int:
        return len(self.ids)


class Attachment(Protocol):
    """What wants states of every prompt that a model reads, out of the passes that read them anyway."""

    @property
    def spec(self) -> CaptureSpec:
        """Which states, with explicit layers."""
        ...

    def receive(self, states: Activations) -> None:
        """Take those of a batch; a prompt that is read again comes again."""
        ...

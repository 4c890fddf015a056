"""Tells whether two ways to compute the same states agree as far as rounding lets them.

Differences are L2 norms of vectors, as ratios of the norm of the right one: a few huge elements (massive activations)
would hide a wrong vector from any measure by its largest element. In half precision the *largest* difference of a
layer's vectors is mostly rounding, of one token that went astray; a wrong site moves most vectors, and shows in their
*median*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

# Layouts and backends differ on real models by less than 4e-6 in float32. In bfloat16 (one step: 0.008) single
# vectors differ by up to 0.05 and medians by up to 0.03, of which wrong sites give 0.09 and more.
_TOLERANCE = 5e-5
_LARGEST_STEPS = 16
_MEDIAN_STEPS = 5


@dataclass(frozen=True, order=True)
class Gap:
    """How far some vectors are from those that they should equal.

    Attributes:
        excess: the difference as a multiple of what rounding explains; above 1 it is an error.
        difference: the largest of a vector; infinite where something is not finite.
        where: the site and layer.
    """

    excess: float
    difference: float
    where: str = ""

    @property
    def explained(self) -> bool:
        """Whether rounding explains it."""
        return self.excess <= 1


def differences(
    found: Float[Tensor, "*vector d_model"], wanted: Float[Tensor, "*vector d_model"]
) -> Float[Tensor, "*vector"]:
    """Return the L2 norm of each vector's difference over the norm of the vector wanted, on the CPU."""
    found, wanted = found.float().cpu(), wanted.float().cpu()
    norms = wanted.norm(dim=-1).clamp_min(torch.finfo(torch.float32).tiny)
    each: Tensor = (found - wanted).norm(dim=-1) / norms
    return each.nan_to_num(nan=float("inf"), posinf=float("inf"))


def largest_allowed(dtype: torch.dtype) -> float:
    """Return up to which difference rounding explains a single vector of a type."""
    return max(_TOLERANCE, _LARGEST_STEPS * torch.finfo(dtype).eps)


def gap(found: Tensor, wanted: Tensor, dtype: torch.dtype, where: str = "") -> Gap:
    """Hold the vectors of one layer against those that they should equal."""
    each = differences(found, wanted)
    largest, median = float(each.max()), float(each.median())
    allowed = max(_TOLERANCE, _MEDIAN_STEPS * torch.finfo(dtype).eps)
    return Gap(max(largest / largest_allowed(dtype), median / allowed), largest, where)


def widest_gap(
    found: Mapping[str, Float[Tensor, "item layer position d_model"]],
    wanted: Mapping[str, Float[Tensor, "item layer position d_model"]],
    dtype: torch.dtype,
) -> Gap:
    """Return the worst gap over all sites and layers."""
    return max(
        gap(
            states[:, layer],
            wanted[site][:, layer],
            dtype,
            f"{site} of layer {layer}" if states.shape[1] > 1 else site,
        )
        for site, states in found.items()
        for layer in range(states.shape[1])
    )

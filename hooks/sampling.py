"""Draws of tokens that depend on a completion alone, never on its batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Sampling:
    """Draws from softmax(scores / temperature), by the inverse of its cumulative distribution.

    Each row has a random stream of its own and takes one number of it a step.
    """

    def __init__(self, seeds: Sequence[int], temperature: float, device: torch.device) -> None:
        """Take a seed a row."""
        self._streams = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self._temperature = temperature

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows alone."""
        self._streams = [self._streams[row] for row in rows]

    def __call__(self, scores: Float[Tensor, "row vocabulary"]) -> Int[Tensor, "row"]:
        """Draw a step's tokens."""
        # In float32 the sum of a vocabulary would be off by more than rare tokens weigh.
        cumulative = (scores.double() / self._temperature).softmax(dim=-1).cumsum(dim=-1)
        drawn = torch.cat(
            [
                torch.rand(1, dtype=torch.float64, device=scores.device, generator=stream)
                for stream in self._streams
            ]
        )
        # The sum ends a rounding off 1; right=True passes over tokens of probability 0.
        place = torch.searchsorted(cumulative, (drawn * cumulative[:, -1])[:, None], right=True)
        return place[:, 0]


def row_seed(seed: int, id: str, sample: int) -> int:
    """Return the seed of one completion, whatever else is in its batch."""
    digest = hashlib.sha256(f"{seed} {sample} {id}".encode()).digest()
    return int.from_bytes(digest[:7], "big")

"""Draws of tokens that depend on a completion alone, never on its batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


class GumbelNoise:
    """Noise on logits: the argmax of what comes out is a draw from softmax(logits / temperature).

    Each row has a random stream of its own. Gumbel (1954); Maddison et al. 2014, 1411.0030.
    """

    def __init__(self, seeds: Sequence[int], temperature: float, device: torch.device) -> None:
        """Take a seed a row."""
        self._streams = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self._temperature = temperature

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows alone."""
        self._streams = [self._streams[row] for row in rows]

    def __call__(self, scores: Float[Tensor, "row vocabulary"]) -> Float[Tensor, "row vocabulary"]:
        """Add noise to a step's scores."""
        # In float32 one draw in 2^24 is 0, and its token would win whatever its probability.
        exponential = torch.empty_like(scores, dtype=torch.float64)
        for row, stream in zip(exponential, self._streams, strict=True):
            row.exponential_(generator=stream)
        return scores.double() / self._temperature - exponential.log()


def row_seed(seed: int, id: str, sample: int) -> int:
    """Return the seed of one completion, whatever else is in its batch."""
    digest = hashlib.sha256(f"{seed} {sample} {id}".encode()).digest()
    return int.from_bytes(digest[:7], "big")

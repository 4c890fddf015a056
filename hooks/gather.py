"""Picks the states of named positions out of what passes by in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from hooks.batching import Batch


@dataclass(frozen=True)
class Gather:
    """Picks (and averages) the states of named positions out of a layer's output.

    Attributes:
        flat: the flattened slots to read.
        segment: for each of them the (item, position) cell that it is averaged into.
        counts: how many tokens each cell averages.
        shape: items, positions.
        batch_shape: rows, slots.
    """

    flat: Int[Tensor, "token"]
    segment: Int[Tensor, "token"]
    counts: Float[Tensor, "cell 1"]
    shape: tuple[int, int]
    batch_shape: tuple[int, int]

    @classmethod
    def of(cls, batch: Batch, positions: Sequence[str], device: torch.device) -> Gather:
        """Resolve every prompt's positions in the batch."""
        cells = [
            batch.flat_slots(prompt, position)
            for prompt in range(len(batch.prompts))
            for position in positions
        ]
        counts = torch.tensor([len(cell) for cell in cells])
        return cls(
            flat=torch.tensor([slot for cell in cells for slot in cell], device=device),
            segment=torch.repeat_interleave(torch.arange(len(cells)), counts).to(device),
            counts=counts.float()[:, None].to(device),
            shape=(len(batch.prompts), len(positions)),
            batch_shape=(batch.token_ids.shape[0], batch.token_ids.shape[1]),
        )

    def check(self, shape: Sequence[int], site: str, layer: int) -> None:
        """Raise RuntimeError if what passes at a site is not `[row, slot, d_model]` of this batch."""
        rows, slots = self.batch_shape
        # OPT flattens the rows around its MLP.
        shapes = [(rows, slots), *([(rows * slots,)] if site == "mlp_out" else [])]
        if tuple(shape[:-1]) not in shapes:
            raise RuntimeError(
                f"{site} of layer {layer} has shape {tuple(shape)}, not ({rows}, {slots}, d_model)"
            )

    def rows(
        self, states: Float[Tensor, "*slot d_model"], site: str, layer: int
    ) -> Float[Tensor, "token d_model"]:
        """Copy the wanted rows out of `[row, slot, d_model]`, so that the rest can be freed."""
        self.check(states.shape, site, layer)
        flat = rearrange(states, "... d_model -> (...) d_model")
        return flat.index_select(0, self.flat.to(flat.device))

    def means(self, rows: Float[Tensor, "token d_model"]) -> Float[Tensor, "item position d_model"]:
        """Average the rows of each cell, in float32."""
        if len(rows) == len(self.counts):  # a token a cell
            return rows.float().view(*self.shape, -1)
        values, counts = rows.float(), self.counts.to(rows.device)
        if rows.device.type == "cpu":
            sums = values.new_zeros(len(counts), values.shape[-1])
            means = sums.index_add_(0, self.segment.to("cpu"), values) / counts
        else:
            # index_add_ is faster, but on a GPU it adds in an order of its own each time.
            lengths = counts.squeeze(1).long()
            means = torch.segment_reduce(values, "mean", lengths=lengths, axis=0, unsafe=True)
        return rearrange(
            means, "(item position) d_model -> item position d_model", item=self.shape[0]
        )

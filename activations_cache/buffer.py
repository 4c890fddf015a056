"""Rows that wait for their shard, encoded, in the order of the file: layer, position, item, d_model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float32, Shaped
from torch import Tensor

from activations_cache.encoding import FORMATS, StorageDType, as_bits, is_finite
from activations_cache.parts import layers_of
from hooks.activations import LAYERLESS_SITES, Activations, CaptureSpec


class NonFiniteError(ValueError):
    """An activation is an infinity or a NaN, or would become one when stored."""


class RowBuffer:
    """Rows of one part. Its memory is kept when it is emptied, for the next shard.

    Rows are copied as they come: a view of one position would keep the whole layer output that it
    came from in memory.
    """

    def __init__(
        self, part: CaptureSpec, dtype: StorageDType, d_model: int, options: Sequence[str]
    ) -> None:
        self.part = part
        self.dtype = dtype
        self.ids: list[str] = []
        self.batches: list[int] = []
        self._staged: list[str] = []
        self._capacity = 0
        shapes = {
            site: (len(layers_of(part, site)), len(part.positions), 0, d_model)
            for site in part.sites
        }
        self._sites = {
            site: torch.empty(shape, dtype=FORMATS[dtype].values) for site, shape in shapes.items()
        }
        self._options = {option: np.empty(0, dtype=np.float32) for option in options}

    def stage(self, activations: Activations, rows: Sequence[int]) -> None:
        """Encode some rows of a batch; they count once `accept` is called.

        Raises NonFiniteError naming the first value that cannot be stored.
        """
        start = len(self.ids)
        stop = start + len(rows)
        self._reserve(stop)
        self._staged = [activations.ids[row] for row in rows]
        for site, buffer in self._sites.items():
            states = self._select(activations, site, rows)
            target = buffer[:, :, start:stop]
            target.copy_(states.permute(1, 2, 0, 3))
            if not is_finite(as_bits(target, self.dtype), self.dtype):
                raise NonFiniteError(self._describe(site, states, target))
        for option, values in self._options.items():
            chosen = activations.option_logprobs[option].numpy()[rows]
            values[start:stop] = chosen
            if not np.isfinite(chosen).all():
                row = int(np.flatnonzero(~np.isfinite(chosen))[0])
                raise NonFiniteError(
                    f"item {self._staged[row]!r}, option_logprobs {option!r}: {chosen[row]} "
                    f"{_NOT_FINITE}"
                )

    def accept(self, batch: int | None) -> tuple[str, ...]:
        """Keep what was staged, a batch of that number in the plan; returns its ids."""
        staged, self._staged = tuple(self._staged), []
        self.ids.extend(staged)
        if batch is not None:
            self.batches.append(batch)
        return staged

    def clear(self) -> None:
        """Drop all rows, keep the memory."""
        self.ids, self.batches, self._staged = [], [], []

    @property
    def n_bytes(self) -> int:
        """Size of the activations held."""
        return sum(bits.nbytes for bits in self.sites().values())

    def sites(self) -> Mapping[str, Shaped[np.ndarray, "layer position item d_model"]]:
        """The stored bits by site."""
        n_rows = len(self.ids)
        return {
            site: as_bits(buffer[:, :, :n_rows], self.dtype) for site, buffer in self._sites.items()
        }

    def option_logprobs(self) -> Mapping[str, Float32[np.ndarray, "item"]]:
        """The options' log-probabilities by name."""
        return {option: values[: len(self.ids)] for option, values in self._options.items()}

    def _select(
        self, activations: Activations, site: str, rows: Sequence[int]
    ) -> Shaped[Tensor, "item layer position d_model"]:
        states = activations.sites[site]
        if len(rows) < len(activations.ids):
            states = states[list(rows)]
        if site not in LAYERLESS_SITES and activations.layers != self.part.layers:
            states = states[:, [activations.layers.index(layer) for layer in self.part.layers]]
        if activations.positions != self.part.positions:
            states = states[:, :, [activations.positions.index(p) for p in self.part.positions]]
        return states

    def _reserve(self, n_rows: int) -> None:
        """Make room, twice as much as before: how many rows fill a shard is known when it is full."""
        if n_rows <= self._capacity:
            return
        self._capacity = max(n_rows, 2 * self._capacity)
        held = len(self.ids)
        for site, old in self._sites.items():
            shape = (*old.shape[:2], self._capacity, old.shape[3])
            self._sites[site] = torch.empty(shape, dtype=old.dtype)
            self._sites[site][:, :, :held] = old[:, :, :held]
        for option, values in self._options.items():
            self._options[option] = np.resize(values, self._capacity)

    def _describe(
        self,
        site: str,
        states: Shaped[Tensor, "item layer position d_model"],
        encoded: Shaped[Tensor, "layer position item d_model"],
    ) -> str:
        bad = torch.nonzero(~torch.isfinite(encoded.permute(2, 0, 1, 3).float()))[0]
        row, layer, position, unit = bad.tolist()
        value = float(states[row, layer, position, unit])
        place = "" if site in LAYERLESS_SITES else f", layer {self.part.layers[layer]}"
        wider = {"float16": '"bfloat16" or "float32"'}.get(self.dtype, '"float32"')
        advice = (
            f"is too large for {self.dtype}; make the cache with dtype={wider}"
            if np.isfinite(value)
            else _NOT_FINITE
        )
        return (
            f"item {self._staged[row]!r}, site {site}{place}, position "
            f"{self.part.positions[position]}: {value} in dimension {unit} {advice}"
        )


_NOT_FINITE = "is not a finite number; run the model in bfloat16 or float32, not float16"

"""The activations of labeled items, read a cell at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from jaxtyping import Float32

from activations_cache import ActivationsCache, Cell
from experiments.task_data import cell_name
from probes import Candidate


@dataclass(frozen=True)
class States:
    """Some items of a cache, in an order of their own. Nothing is held: every read goes to the disk."""

    cache: ActivationsCache
    ids: Sequence[str]

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell that the cache holds of all its items.

        Raises:
            ValueError: there is none.
        """
        cells = tuple(self.cache.cells())
        if not cells:
            raise ValueError(
                f"cache: {self.cache.path} holds no cell of all items; finish the capture"
            )
        return cells

    def read(self, cell: Cell) -> Float32[np.ndarray, "item d_model"]:
        """Activations of one cell.

        Raises:
            ValueError: one is nan or inf; names cell and item.
        """
        site, layer, position = cell
        column = self.cache.read(site, layer=layer, position=position, ids=list(self.ids))
        broken = ~np.isfinite(column).all(axis=1)
        if broken.any():
            item = self.ids[int(broken.argmax())]
            raise ValueError(
                f"cache: {cell_name(cell)} of item {item!r} holds nan or inf; capture it again"
            )
        return column

    def candidate(self, cell: Cell) -> Candidate:
        """A cell of a grid, read only while it is evaluated."""
        return Candidate.lazy(cell_name(cell), partial(self.read, cell))

    @cached_property
    def candidates(self) -> list[Candidate]:
        """All cells, as a grid."""
        return [self.candidate(cell) for cell in self.cells]

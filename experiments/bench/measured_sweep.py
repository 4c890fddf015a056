"""The sweep that `selfprobe bench probes` measures: its targets with their folds, and the cells that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from activations_cache import ActivationsCache, Cell
from probes import SweepResult, grouped_folds, sweep, whole_group_permutations

N_FOLDS = 5
C_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True)
class Targets:
    """Three targets of one set of items, and the folds that they share."""

    by_name: dict[str, Int[np.ndarray, "item"]]
    groups: np.ndarray
    folds: Int[np.ndarray, "item"]
    n_permutations: int

    @staticmethod
    def of(groups: Sequence[str], texts: Sequence[str], n_permutations: int) -> Targets:
        """One that is easy (the task), one that is graded (a long text) and one that cannot be learned (chance)."""
        lengths = np.array([len(text) for text in texts])
        targets = {
            "task": np.array([int(group.startswith("refusal")) for group in groups]),
            "long": (lengths > np.median(lengths)).astype(int),
            "chance": np.random.default_rng(0).integers(0, 2, len(groups)),
        }
        names = np.array(groups)
        return Targets(
            targets, names, grouped_folds(targets["task"], names, N_FOLDS), n_permutations
        )

    @property
    def columns(self) -> Int[np.ndarray, "target 1+permutation item"]:
        """The labels of every target and the permuted ones, as a sweep makes them."""
        return np.array(
            [
                np.column_stack(
                    [y, whole_group_permutations(y, self.groups, self.n_permutations)]
                ).T
                for y in self.by_name.values()
            ]
        )

    @property
    def fits_a_cell(self) -> int:
        """Targets with their permutations x folds x C."""
        return len(self.by_name) * (1 + self.n_permutations) * N_FOLDS * len(C_GRID)

    def sweep(self, reader: Reader, device: str = "cpu") -> SweepResult:
        """The sweep that is measured."""
        return sweep(
            reader,
            self.by_name,
            groups=self.groups,
            folds=self.folds,
            penalties=C_GRID,
            n_permutations=self.n_permutations,
            device=device,
        )


@dataclass(frozen=True)
class Reader:
    """Some cells of a cache."""

    cache: ActivationsCache
    chosen: Sequence[Cell]

    def cells(self) -> Sequence[Cell]:
        """The chosen ones."""
        return self.chosen

    def read(self, site: str, *, layer: int | None, position: str) -> Float[np.ndarray, "item d"]:
        """As the cache does."""
        return self.cache.read(site, layer=layer, position=position)

    def arrays(self) -> Iterator[Float[np.ndarray, "item d"]]:
        """The cells, one after the other."""
        return (self.read(site, layer=layer, position=at) for site, layer, at in self.chosen)

"""Reading items out of the committed shards, whatever parts and shards they lie in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Int

from activations_cache.columns import open_columns, read_option
from activations_cache.contents import MEND, Contents
from activations_cache.encoding import decode_into
from activations_cache.parts import Cell, cells_of, layers_of, resolve
from hooks.activations import Activations, CaptureSpec

Ids = Sequence[str] | None
"""Which items, in their order; None: all that the cache holds."""


@dataclass(frozen=True)
class Reader:
    """Reads from a cache folder as `contents` describes it."""

    folder: Path
    contents: Contents

    def part_holding(self, cell: Cell) -> int:
        """The part of a cell; ValueError naming what there is where there is no such cell."""
        site, layer, position = cell
        spec = self.contents.manifest.spec
        _check("site", site, spec.sites)
        _check("layer", layer, layers_of(spec, site))
        _check("position", position, spec.positions)
        return next(
            number
            for number, part in enumerate(self.contents.manifest.parts)
            if site in part.sites and layer in layers_of(part, site) and position in part.positions
        )

    def part_of(self, cell: Cell) -> int:
        """The part of a cell that can be read; ValueError where some items still lack it."""
        part = self.part_holding(cell)
        self._check_whole(part, "/".join(map(str, cell)))
        return part

    def option(self, name: str) -> int:
        """The index of an option; ValueError naming what there is."""
        options = self.contents.manifest.options or ()
        _check("option", name, options)
        self._check_whole(0, f"option {name!r}")
        return options.index(name)

    def check_ids(self, ids: Ids) -> None:
        """Raise ValueError where the cache does not hold some of `ids`."""
        held = self.contents.holdings.ids
        unknown = [] if ids is None else self.contents.holdings.unknown(ids)
        if ids is not None and unknown:
            examples = f", for example {', '.join(map(repr, held[:3]))}" if held else ""
            raise ValueError(
                f"ids: the cache does not hold {unknown[0]!r} ({len(unknown)} of {len(ids)} are "
                f"unknown); it has {len(held)} items{examples}"
            )

    def read(self, part: int, cell: Cell, ids: Ids) -> Float32[np.ndarray, "item d_model"]:
        """One column of a part."""
        n_items = len(self.contents.holdings.ids if ids is None else ids)
        result = np.empty((n_items, self.contents.manifest.d_model or 0), dtype=np.float32)
        self._fill(part, ids, {cell: result})
        return result

    def read_option(self, option: int, ids: Ids) -> Float32[np.ndarray, "item"]:
        """The log-probabilities of an option at an index."""
        rows = self.contents.holdings.rows(0, ids)
        result = np.empty(len(rows), dtype=np.float32)
        for shard, here, local in self.contents.holdings.by_shard(0, rows):
            with _naming(self.folder / shard.file):
                result[here] = read_option(self.folder, self.contents.manifest, shard, option)[
                    local
                ]
        return result

    def parts_of(self, spec: CaptureSpec) -> tuple[CaptureSpec, Mapping[int, list[Cell]]]:
        """The spec with explicit layers, and its cells by part; ValueError as `part_of`."""
        spec = resolve(spec, self.contents.manifest.fingerprint)
        if isinstance(spec.layers, str):
            spec = replace(spec, layers=self.contents.manifest.spec.layers)
        parts: dict[int, list[Cell]] = {}
        for cell in cells_of(spec):
            parts.setdefault(self.part_of(cell), []).append(cell)
        return spec, parts

    def iterate(
        self, spec: CaptureSpec, parts: Mapping[int, list[Cell]], rows: int
    ) -> Iterator[Activations]:
        """All items in order, `rows` at a time."""
        holdings, options = self.contents.holdings, self.contents.manifest.options or ()
        with_options = options if holdings.is_whole(0) else ()
        ids = holdings.ids
        for start in range(0, len(ids), rows):
            block = ids[start : start + rows]
            shape = (len(spec.positions), self.contents.manifest.d_model or 0)
            sites = {
                site: np.empty((len(block), len(layers_of(spec, site)), *shape), dtype=np.float32)
                for site in spec.sites
            }
            for part, cells in parts.items():
                self._fill(
                    part,
                    block,
                    {
                        (site, layer, position): sites[site][
                            :, layers_of(spec, site).index(layer), spec.positions.index(position)
                        ]
                        for site, layer, position in cells
                    },
                )
            assert not isinstance(spec.layers, str)
            yield Activations(
                ids=block,
                sites={site: torch.from_numpy(states) for site, states in sites.items()},
                layers=spec.layers,
                positions=spec.positions,
                option_logprobs={
                    name: torch.from_numpy(self.read_option(number, block))
                    for number, name in enumerate(with_options)
                },
            )

    def _fill(
        self, part: int, ids: Ids, targets: Mapping[Cell, Float32[np.ndarray, "item d_model"]]
    ) -> None:
        """Write the values of `ids` at some cells of a part; every shard is opened once."""
        manifest, holdings = self.contents.manifest, self.contents.holdings
        for shard, here, rows in holdings.by_shard(part, holdings.rows(part, ids)):
            start, stop = int(rows.min()), int(rows.max()) + 1
            in_order = _is_run(here) and _is_run(rows)
            with (
                _naming(self.folder / shard.file),
                open_columns(self.folder, manifest, shard) as columns,
            ):
                for cell, target in targets.items():
                    stored = columns.rows(cell, start, stop)
                    if in_order:
                        decode_into(target[here[0] : here[-1] + 1], stored, manifest.dtype)
                    else:
                        values = np.empty(stored.shape, dtype=np.float32)
                        decode_into(values, stored, manifest.dtype)
                        target[here] = values[rows - start]

    def _check_whole(self, part: int, what: str) -> None:
        holdings = self.contents.holdings
        if not holdings.is_whole(part):
            raise ValueError(
                f"{what}: the cache holds it for {holdings.count(part)} of {len(holdings.ids)} "
                "items; capture again with spec=cache.spec and done=cache.done"
            )


def _check(field: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        names = ", ".join(map(str, allowed)) or "none"
        raise ValueError(f"{field}: the cache does not hold {value!r}; it has {names}")


def _is_run(numbers: Int[np.ndarray, "row"]) -> bool:
    """Whether they are n, n + 1, n + 2, ..."""
    return bool((np.diff(numbers) == 1).all())


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, KeyError) as error:
        raise ValueError(f"shard {path} cannot be read ({error}); {MEND}") from error

"""Rectangles of cells: what a cache is to hold, and what an extension adds to it.

A cache is one or more *parts*. A part is a `CaptureSpec` with explicit layers: every site at every
layer (where it has layers) and position, with shards of its own. Parts share no cell, and together
they are again such a rectangle, the spec of the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from activations_cache.documents import MAX_CELLS
from hooks.activations import LAYERLESS_SITES, CaptureSpec

Cell = tuple[str, int | None, str]


def resolve(spec: CaptureSpec, fingerprint: Mapping[str, Any]) -> CaptureSpec:
    """The spec with explicit layers where the fingerprint says how many the model has."""
    return spec.resolve(fingerprint["n_layers"]) if "n_layers" in fingerprint else spec


def layers_of(spec: CaptureSpec, site: str) -> tuple[int | None, ...]:
    """The layer axis of a site: (None,) where it has none, () while layers are still "all"."""
    if site in LAYERLESS_SITES:
        return (None,)
    return () if isinstance(spec.layers, str) else spec.layers


def cells_of(spec: CaptureSpec) -> list[Cell]:
    """Every (site, layer, position), in order."""
    return [
        (site, layer, position)
        for site in spec.sites
        for layer in layers_of(spec, site)
        for position in spec.positions
    ]


def union(specs: Sequence[CaptureSpec]) -> CaptureSpec:
    """The smallest rectangle around all: names in order of appearance, layers sorted.

    ValueError where one has explicit layers and another "all".
    """
    if len(specs) == 1:
        return specs[0]
    open_ended = [isinstance(spec.layers, str) for spec in specs]
    if any(open_ended) and not all(open_ended):
        raise ValueError(
            'layers: "all" cannot be joined with numbers, for the fingerprint has no n_layers; '
            "name the layers"
        )
    layers = sorted({layer for spec in specs for layer in spec.layers if isinstance(layer, int)})
    return CaptureSpec(
        sites=_in_order(site for spec in specs for site in spec.sites),
        layers="all" if all(open_ended) else tuple(layers),
        positions=_in_order(position for spec in specs for position in spec.positions),
    )


def check_rectangle(parts: Sequence[CaptureSpec]) -> None:
    """Raise ValueError where parts share a cell, or are together no rectangle."""
    whole = union(parts)
    # Counted before they are made: a few names and numbers can ask for more cells than fit.
    sizes = [len(spec.sites) * len(spec.layers) * len(spec.positions) for spec in (whole, *parts)]
    if max(sizes[0], sum(sizes[1:])) > MAX_CELLS:
        raise ValueError(f"field parts: more than {MAX_CELLS} cells")
    cells = [cell for part in parts for cell in cells_of(part)]
    if len(set(cells)) < len(cells) or set(cells) != set(cells_of(whole)):
        raise ValueError("field parts: they share cells, or are together no rectangle")


def added_parts(old: CaptureSpec, new: CaptureSpec) -> tuple[CaptureSpec, ...]:
    """The cells of `new` that `old` lacks, as at most three rectangles; `new` contains `old`."""
    sites = tuple(site for site in new.sites if site not in old.sites)
    layers = tuple(layer for layer in new.layers if layer not in old.layers)
    positions = tuple(name for name in new.positions if name not in old.positions)
    deep = tuple(site for site in old.sites if site not in LAYERLESS_SITES)
    parts = []
    if sites:
        parts.append(replace(new, sites=sites))
    if layers and deep:
        parts.append(CaptureSpec(deep, layers, new.positions))  # type: ignore[arg-type]
    if positions:
        parts.append(replace(old, positions=positions))
    return tuple(parts)


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))

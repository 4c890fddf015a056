"""What can be read at each layer, small enough to stand in a station of the path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 100.0, 32.0


@dataclass(frozen=True)
class Profile:
    """What can be read at each layer, as bars over `WIDTH` that stand on chance.

    `bars` is the path of an SVG, `width` that of a bar, `marked` the middle of the selected layer's bar, `about` says
    which layers these are.
    """

    bars: str
    width: float
    marked: float | None
    about: str


def profile(
    values: Sequence[float | None],
    layers: Sequence[int],
    marked: int | None,
    chance: float = 0.5,
    top: float = 1.0,
) -> Profile | None:
    """Bars of what lies above chance at each layer; None without any value.

    Args:
        values: a score a layer.
        layers: their numbers.
        marked: the layer to mark.
        chance: where bars begin.
        top: where they are `HEIGHT` high.
    """
    known = [value for value in values if value is not None]
    if not known or not layers:
        return None
    step = WIDTH / len(layers)
    bars = []
    for index, value in enumerate(values):
        share = 0.0 if value is None else min(max((value - chance) / (top - chance), 0.0), 1.0)
        # A bar of no height would look like a layer that was not read.
        height = 0.0 if value is None else max(share * HEIGHT, 0.6)
        bars.append(f"M{step * (index + 0.5):.4g} {HEIGHT:g}v-{height:.3g}")
    place = next((i for i, layer in enumerate(layers) if layer == marked), None)
    at = None if place is None else step * (place + 0.5)
    return Profile(
        "".join(bars),
        round(0.75 * step, 3),
        None if at is None else round(at, 2),
        f"layers {layers[0]} to {layers[-1]}",
    )

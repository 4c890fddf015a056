"""A chart over layers that the page draws itself: the values of a layer are there for mouse, keyboard and reader.

Geometry alone: `template` turns it into SVG, and a table holds the same values for who does not see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor

import numpy as np

from experiments.report.formatting import estimate, number
from experiments.report.grid import Grid
from experiments.report.layers import layer_ticks
from experiments.report.metric import Metric

WIDTH, HEIGHT = 520.0, 328.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 12.0, 26.0, 52.0
"""Room for the axes."""


@dataclass(frozen=True)
class Series:
    """A value a layer, and its interval if it has one; `thin` ones stand behind and are not told of."""

    name: str
    look: str
    values: Sequence[float | None]
    thin: bool = False
    cis: Sequence[Sequence[float | None] | None] | None = None

    def told(self, index: int) -> str:
        """The value of one layer."""
        return estimate(self.values[index], self.cis[index] if self.cis else None)


@dataclass(frozen=True)
class Level:
    """A value that has no layer."""

    name: str
    look: str
    value: float


@dataclass(frozen=True)
class Point:
    """The score to quote: at a layer, with its interval."""

    look: str
    layer: int
    value: float
    ci: Sequence[float | None] | None


@dataclass(frozen=True)
class Upright:
    """A place between layers, with its name."""

    name: str
    look: str
    layer: float


@dataclass(frozen=True)
class Column:
    """A layer: where its values can be pointed at, and what they are."""

    layer: int
    left: float
    width: float
    middle: float
    told: str


@dataclass(frozen=True)
class Chart:
    """What the template draws; lengths are those of a view box of `WIDTH` x `HEIGHT`."""

    title: str
    description: str
    y_label: str
    x_label: str
    band: str
    lines: tuple[tuple[Series, str], ...]
    """With the path of each; a gap where a layer has no value."""
    levels: tuple[tuple[Level, float], ...]
    points: tuple[tuple[Point, float, float, float | None, float | None], ...]
    """With x, y and the ends of the interval."""
    uprights: tuple[tuple[Upright, float], ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    columns: tuple[Column, ...]
    first: int
    """Index of the column that is told of to begin with."""
    values: Grid
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


def layer_chart(
    title: str,
    layers: Sequence[int],
    series: Sequence[Series],
    *,
    x_label: str = "layer",
    metric: Metric,
    band: Sequence[Sequence[float]] | None = None,
    band_name: str = "",
    levels: Sequence[Level] = (),
    points: Sequence[Point] = (),
    uprights: Sequence[Upright] = (),
    first: int | None = None,
) -> Chart:
    """Lay out a chart.

    Args:
        title: what it shows.
        layers: their numbers, rising.
        series: each with a value a layer.
        x_label: of the axis of layers.
        metric: what the values are.
        band: lower and upper bound a layer of what chance gives.
        band_name: its name in the table.
        levels: drawn across.
        points: with intervals.
        uprights: drawn from top to bottom.
        first: the layer that is told of to begin with; the last one by default.
    """
    scale = _Scale(layers, [*_heights(series, band, levels, points), metric.chance])
    shown = [one for one in series if not one.thin]
    columns = tuple(_columns(layers, shown, scale))
    heads = ("layer", *(one.name for one in shown), *([band_name] if band else []))
    rows = tuple(
        (
            str(layer),
            *(one.told(index) for one in shown),
            *([_range(band[index])] if band else []),
        )
        for index, layer in enumerate(layers)
    )
    begin = next((i for i, layer in enumerate(layers) if layer == first), len(layers) - 1)
    return Chart(
        title=title,
        description=_described(title, layers, shown),
        y_label=metric.label,
        x_label=x_label,
        band=_area(band, layers, scale) if band else "",
        lines=tuple((one, _path(one.values, layers, scale)) for one in series),
        levels=tuple((one, scale.y(one.value)) for one in levels),
        points=tuple(
            (one, scale.x(one.layer), scale.y(one.value), *_interval(one.ci, scale))
            for one in points
        ),
        uprights=tuple((one, scale.x(one.layer)) for one in uprights),
        x_ticks=tuple(
            (scale.x(float(tick)), f"{tick:g}")
            for tick in layer_ticks(np.asarray(layers, dtype=float))
        ),
        y_ticks=tuple((scale.y(tick), f"{tick:.{scale.decimals}f}") for tick in scale.ticks),
        columns=columns,
        first=begin,
        values=Grid(f"{title}, the values of every layer", heads, rows),
    )


class _Scale:
    """From layers and values to lengths of the view box."""

    def __init__(self, layers: Sequence[int], values: Sequence[float]) -> None:
        low, high = min(values), max(values)
        step = 0.05 if high - low < 0.3 else 0.1 if high - low < 0.8 else 0.2
        self.decimals = 2 if step < 0.1 else 1
        bottom, top = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        self.ticks = [round(step * i, 2) for i in range(bottom, max(top, bottom + 1) + 1)]
        self._low, self._high = self.ticks[0], self.ticks[-1]
        self._first, self._last = layers[0], layers[-1]

    def x(self, layer: float) -> float:
        inner = WIDTH - LEFT - RIGHT
        if self._last == self._first:
            return LEFT + inner / 2
        # Half a layer is left free on both sides, so that every column is equally wide.
        share = (layer - self._first + 0.5) / (self._last - self._first + 1)
        return round(LEFT + inner * share, 1)

    def y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share, 1)


def _heights(
    series: Sequence[Series],
    band: Sequence[Sequence[float]] | None,
    levels: Sequence[Level],
    points: Sequence[Point],
) -> Iterator[float]:
    for one in series:
        yield from (value for value in one.values if value is not None)
    for bounds in band or ():
        yield from bounds
    for point in points:
        yield from (bound for bound in (point.value, *(point.ci or ())) if bound is not None)
    yield from (level.value for level in levels)


def _columns(layers: Sequence[int], series: Sequence[Series], scale: _Scale) -> Iterator[Column]:
    middles = [scale.x(layer) for layer in layers]
    between = [(a + b) / 2 for a, b in pairwise(middles)]
    edges = [LEFT, *between, WIDTH - RIGHT]
    for index, layer in enumerate(layers):
        told = "; ".join(f"{one.name} {one.told(index)}" for one in series)
        left, right = edges[index], edges[index + 1]
        yield Column(
            layer, round(left, 1), round(right - left, 1), middles[index], f"layer {layer}: {told}"
        )


def _path(values: Sequence[float | None], layers: Sequence[int], scale: _Scale) -> str:
    parts, pen = [], "M"
    for layer, value in zip(layers, values, strict=True):
        if value is None:
            pen = "M"
            continue
        parts.append(f"{pen}{scale.x(layer):g} {scale.y(value):g}")
        pen = "L"
    return "".join(parts)


def _area(band: Sequence[Sequence[float]], layers: Sequence[int], scale: _Scale) -> str:
    lower = [
        f"{scale.x(layer):g} {scale.y(low):g}" for layer, (low, _) in zip(layers, band, strict=True)
    ]
    upper = [
        f"{scale.x(layer):g} {scale.y(high):g}"
        for layer, (_, high) in zip(layers, band, strict=True)
    ]
    return "M" + "L".join([*lower, *reversed(upper)]) + "Z"


def _interval(
    ci: Sequence[float | None] | None, scale: _Scale
) -> tuple[float | None, float | None]:
    if ci is None or any(bound is None for bound in ci):
        return None, None
    low, high = ci
    return scale.y(float(low or 0.0)), scale.y(float(high or 0.0))


def _range(bounds: Sequence[float]) -> str:
    return f"{number(bounds[0])} to {number(bounds[1])}"


def _described(title: str, layers: Sequence[int], series: Sequence[Series]) -> str:
    """The course of every line in words: where it begins, where it is highest, where it ends."""
    told = []
    for one in series:
        known = [(v, layer) for v, layer in zip(one.values, layers, strict=True) if v is not None]
        if known:
            highest, at = max(known, key=lambda pair: pair[0])
            told.append(
                f"{one.name}: {number(known[0][0])} at layer {known[0][1]}, highest {number(highest)} at layer {at}, "
                f"{number(known[-1][0])} at layer {known[-1][1]}"
            )
    return f"{title}. " + ". ".join(told) + "."

"""Layer x position: the score of every cell by color and number, the selected cell framed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from experiments.report.formatting import estimate
from experiments.report.layers import CONTEXTS, layer_edges, layer_ticks
from experiments.report.metric import METRICS, Metric, metric_of
from experiments.report.style import INK, LOOKS, NULL, SEQUENTIAL

ROW_INCHES = 0.36
MARGIN_INCHES = 1.7
"""Beside a panel: the names of positions."""
NUMBER_INCHES = 0.24
"""A narrower cell has no room for its number."""
NARROWEST, WIDEST = 5.2, 11.0


@dataclass(frozen=True)
class HeatPanel:
    """One grid of cells."""

    title: str
    layers: Sequence[int]
    grid: Mapping[str, Sequence[float | None]]
    """Position -> score by layer."""
    row: Mapping[str, Any]
    """The selected probe: `layer`, `position` and its nested score; empty where it lies elsewhere."""


def plot_heatmap(figure: Any, task_result: Mapping[str, Any]) -> None:
    """Draw a run's grids, one context below the other."""
    plot_heat_panels(figure, run_panels(task_result), metric_of(task_result))


def run_panels(task_result: Mapping[str, Any]) -> list[HeatPanel]:
    """The grids of one entry of `results["tasks"]`."""
    curves = task_result["curves"]
    return [
        HeatPanel(where, curves["layers"], curves[context], task_result.get(name) or {})
        for context, (name, where) in CONTEXTS.items()
        if curves.get(context)
    ]


def heatmap_size(panels: Sequence[HeatPanel]) -> tuple[float, float]:
    """Inches of a figure in which every cell has room for its number, as far as that goes."""
    width = MARGIN_INCHES + 0.3 * max(len(panel.layers) for panel in panels)
    rows = sum(len(panel.grid) for panel in panels)
    return min(max(width, NARROWEST), WIDEST), 0.9 + 0.95 * len(panels) + ROW_INCHES * rows


def plot_heat_panels(
    figure: Any, panels: Sequence[HeatPanel], metric: Metric = METRICS["auroc"]
) -> None:
    """Draw grids of cells, one below the other, on one color scale with chance in it.

    Every cell is annotated where it is wide enough. The framed cell is the one selected most often; the number in the
    title is its nested score, which the number in the cell is not: that was chosen with the labels that score it.
    """
    every = np.concatenate([_floats(list(panel.grid.values())).ravel() for panel in panels])
    low, high = min(metric.chance, np.nanmin(every)), max(metric.strong, np.nanmax(every))
    heights = [len(panel.grid) for panel in panels]
    axes = np.atleast_1d(figure.subplots(len(panels), 1, height_ratios=heights))
    scale = mpl.colors.Normalize(float(low), float(high))
    room = figure.get_figwidth() - MARGIN_INCHES
    for ax, panel in zip(axes, panels, strict=True):
        is_annotated = room / len(panel.layers) >= NUMBER_INCHES
        _draw(ax, panel, scale, metric, is_annotated=is_annotated)
    mesh = mpl.cm.ScalarMappable(scale, SEQUENTIAL)
    figure.colorbar(
        mesh, ax=list(axes), label=metric.label, location="bottom", shrink=0.6, aspect=30
    )


def _draw(ax: Any, panel: HeatPanel, scale: Any, metric: Metric, *, is_annotated: bool) -> None:
    layers, values = _floats(panel.layers), _floats(list(panel.grid.values()))
    edges, rows = layer_edges(layers), np.arange(len(panel.grid) + 1)
    shown = np.ma.masked_invalid(values)
    ax.pcolormesh(edges, rows, shown, cmap=SEQUENTIAL, norm=scale, edgecolors="face", lw=0.2)
    if is_annotated:
        for (y, x), value in np.ndenumerate(values):
            if np.isfinite(value):
                color = "white" if scale(value) < 0.55 else INK
                middle = (edges[x] + edges[x + 1]) / 2
                number = f"{value:.2f}".replace("0.", ".")
                style = {"ha": "center", "va": "center", "fontsize": 7.5, "color": color}
                ax.text(middle, y + 0.5, number, **style)
    ax.set_yticks(rows[:-1] + 0.5, labels=list(panel.grid))
    ax.set_xticks(layer_ticks(layers))
    ax.invert_yaxis()
    ax.grid(False)
    ax.set_facecolor(NULL)
    ax.tick_params(axis="y", length=0, labelsize=9)
    ax.set_title(_title(panel, metric), fontsize=10.5)
    ax.set_xlabel("layer")
    _frame(ax, panel, layers, edges)


def _title(panel: HeatPanel, metric: Metric) -> str:
    row = panel.row
    if row.get(metric.key) is None or row.get("layer") is None:
        return panel.title
    return f"{panel.title}\nframed: layer {row['layer']}; nested {estimate(row[metric.key], row.get('ci'))}"


def _frame(ax: Any, panel: HeatPanel, layers: NDArray[Any], edges: NDArray[Any]) -> None:
    at = np.flatnonzero(layers == _floats(panel.row.get("layer", np.nan)))
    positions = list(panel.grid)
    if len(at) and panel.row.get("position") in positions:
        y = positions.index(panel.row["position"])
        corner, width = (edges[at[0]], y), edges[at[0] + 1] - edges[at[0]]
        for color, line in (("white", 3.6), (LOOKS["verbal"].color, 1.8)):
            style = {"fill": False, "ec": color, "lw": line, "clip_on": False}
            ax.add_patch(plt.Rectangle(corner, width, 1, **style))


def _floats(values: Any) -> NDArray[Any]:
    return np.asarray(values, dtype=float)

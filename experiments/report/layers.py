"""Where in the model probes read the outcome: the layer curve, the layer x position heat map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from experiments.report.formatting import auroc
from experiments.report.style import INK, LOOKS, MUTED, NULL, SEQUENTIAL, Look, styled

CONTEXTS = {
    "task": ("probe", "task prompt"),
    "self_prediction": ("report_probe", "self-prediction prompt"),
}

ROW_HEIGHT = 0.13
"""Height of a row of the heat map, in widths of a panel."""


def plot_layers(task_result: Mapping[str, Any], ax: Any = None) -> Any:
    """Draw the probe's AUROC by layer in both contexts, with the null band, the text and the words.

    The curves are the whole grid, each at the position that its probe was selected at (other
    positions are thin); the large markers are the nested scores of the selection with their 95%
    intervals. The top of a curve is no such score: it was chosen with the labels that score it.

    Args:
        task_result: one entry of `results["tasks"]` that was not skipped.
        ax: where to draw; a new figure by default.

    Returns:
        The axes.
    """
    curves = task_result["curves"]
    layers = np.asarray(curves["layers"], dtype=float)
    with styled():
        if ax is None:
            _, ax = plt.subplots(figsize=(5.8, 5.4))
        _null(ax, curves, layers)
        for context, (name, where) in CONTEXTS.items():
            _context_curves(
                ax, curves.get(context) or {}, layers, task_result.get(name) or {}, name, where
            )
        _levels(ax, task_result, layers)
        ax.set_xlabel(f"layer ({(task_result.get('probe') or {}).get('site', 'residual stream')})")
        ax.set_ylabel("AUROC")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return ax


def _null(ax: Any, curves: Mapping[str, Any], layers: NDArray[Any]) -> None:
    band = _floats(curves.get("null_band"))
    if band.ndim == 2:
        ax.fill_between(
            layers,
            band[:, 0],
            band[:, 1],
            color=NULL,
            lw=0,
            label="labels permuted by group: 95% band",
        )
    if curves.get("null_max") is not None:
        level = [curves["null_max"]] * 2
        label = "permuted: 95% of grid maxima lie below"
        ax.plot(layers[[0, -1]], level, color=MUTED, lw=1, ls=(0, (4, 3)), label=label)
    ax.plot(layers[[0, -1]], [0.5, 0.5], color=MUTED, lw=0.8)


def _context_curves(
    ax: Any,
    by_position: Mapping[str, Sequence[float | None]],
    layers: NDArray[Any],
    row: Mapping[str, Any],
    name: str,
    where: str,
) -> None:
    if not by_position:
        return
    look = LOOKS[name]
    shown = selected_position(by_position, row)
    for position, values in by_position.items():
        if position != shown:
            ax.plot(layers, _floats(values), color=look.color, lw=0.7, ls=look.line, alpha=0.3)
    label = f"probe, {where} ({shown})"
    ax.plot(layers, _floats(by_position[shown]), color=look.color, ls=look.line, label=label)
    if row.get("auroc") is not None and row.get("layer") is not None:
        _interval(ax, row["layer"], row, look, size=8)


def selected_position(
    by_position: Mapping[str, Sequence[float | None]], row: Mapping[str, Any]
) -> str:
    """The position that the probe was selected at, or else the one with the highest curve."""
    chosen = row.get("position")
    if isinstance(chosen, str) and chosen in by_position:
        return chosen
    return max(by_position, key=lambda position: _highest(by_position[position]))


def _levels(ax: Any, task_result: Mapping[str, Any], layers: NDArray[Any]) -> None:
    """Text and words have no layer: a level across, its interval and its name on the right."""
    step = max((layers[-1] - layers[0]) / 26, 0.2)
    rows = {
        "text": (task_result.get("baselines") or {}).get("text") or {},
        "verbal": task_result.get("verbal") or {},
    }
    rows = {name: row for name, row in rows.items() if row.get("auroc") is not None}
    for offset, (name, row) in enumerate(rows.items(), start=1):
        look = LOOKS[name]
        ax.plot([layers[0], layers[-1]], [row["auroc"]] * 2, color=look.color, ls=look.line)
        _interval(ax, layers[-1] + step * 1.1 * offset, row, look, size=5)
    low, high = ax.get_ylim()
    heights = spread([row["auroc"] for row in rows.values()], gap=(high - low) * 0.11)
    for (name, row), height in zip(rows.items(), heights, strict=True):
        text = f"{LOOKS[name].label}\n{auroc(row)}"
        x = layers[-1] + step * (len(rows) + 1.1)
        ax.text(x, height, text, va="center", color=INK, fontsize=9, linespacing=1.1)
    ax.set_ylim(low, high)
    ax.set_xticks([tick for tick in ax.get_xticks() if layers[0] <= tick <= layers[-1]])
    ax.spines["bottom"].set_bounds(layers[0] - step / 2, layers[-1] + step / 2)


def _interval(ax: Any, x: float, row: Mapping[str, Any], look: Look, *, size: float) -> None:
    style = {"color": look.color, "marker": look.marker, "ms": size, "mec": "white", "mew": 0.8}
    error = error_bar(row["auroc"], row.get("ci"))
    ax.errorbar([x], [row["auroc"]], yerr=error, lw=1.4, capsize=3, zorder=5, **style)


def error_bar(value: float, ci: Sequence[float | None] | None) -> NDArray[Any] | None:
    """An interval as the distances `[2, 1]` below and above `value`; None where there is none."""
    if ci is None or any(bound is None for bound in ci):
        return None
    low, high = _floats(ci)
    return np.array([[max(value - low, 0.0)], [max(high - value, 0.0)]])


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move `heights` apart, around the mean of those that collide, to at least `gap`."""
    order = np.argsort(heights, kind="stable")
    clusters: list[list[float]] = []
    for height in np.asarray(heights, dtype=float)[order]:
        clusters.append([float(height)])
        while len(clusters) > 1 and _top(clusters[-2], gap) + gap > _bottom(clusters[-1], gap):
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    placed = [_bottom(cluster, gap) + gap * i for cluster in clusters for i in range(len(cluster))]
    moved = dict(zip(order.tolist(), placed, strict=True))
    return [moved[i] for i in range(len(heights))]


def _bottom(cluster: Sequence[float], gap: float) -> float:
    return float(np.mean(cluster)) - gap * (len(cluster) - 1) / 2


def _top(cluster: Sequence[float], gap: float) -> float:
    return float(np.mean(cluster)) + gap * (len(cluster) - 1) / 2


def plot_heatmap(figure: Any, task_result: Mapping[str, Any]) -> None:
    """Draw AUROC over layer x position, the contexts side by side, the selected cells framed."""
    curves = task_result["curves"]
    grids = {c: curves[c] for c in CONTEXTS if curves.get(c)}
    every = np.concatenate([_floats(list(grid.values())).ravel() for grid in grids.values()])
    low, high = min(0.5, float(np.nanmin(every))), max(0.7, float(np.nanmax(every)))
    axes = np.atleast_1d(figure.subplots(1, len(grids)))
    edges = _edges(_floats(curves["layers"]))
    for ax, (context, grid) in zip(axes, grids.items(), strict=True):
        name, where = CONTEXTS[context]
        values = np.ma.masked_invalid(_floats(list(grid.values())))
        rows = np.arange(len(grid) + 1)
        mesh = ax.pcolormesh(
            edges, rows, values, cmap=SEQUENTIAL, vmin=low, vmax=high, edgecolors="face", lw=0.2
        )
        ax.set_yticks(rows[:-1] + 0.5, labels=list(grid))
        ax.invert_yaxis()
        ax.set_box_aspect(ROW_HEIGHT * len(grid))
        ax.grid(False)
        ax.set_facecolor(NULL)
        ax.tick_params(axis="y", length=0, labelsize=9)
        ax.set_title(where)
        ax.set_xlabel("layer")
        _frame(ax, task_result.get(name) or {}, list(grid), _floats(curves["layers"]), edges)
    figure.colorbar(mesh, ax=list(axes), label="AUROC", location="bottom", shrink=0.6, aspect=35)


def _frame(
    ax: Any, row: Mapping[str, Any], positions: list[str], layers: NDArray[Any], edges: NDArray[Any]
) -> None:
    at = np.flatnonzero(layers == row.get("layer", np.nan))
    if len(at) and row.get("position") in positions:
        y = positions.index(row["position"])
        corner, width = (edges[at[0]], y), edges[at[0] + 1] - edges[at[0]]
        for color, line in (("white", 3.6), (LOOKS["verbal"].color, 1.8)):
            ax.add_patch(
                plt.Rectangle(corner, width, 1, fill=False, ec=color, lw=line, clip_on=False)
            )


def _edges(layers: NDArray[Any]) -> NDArray[Any]:
    middles = [(a + b) / 2 for a, b in pairwise(layers)]
    first = middles[0] if middles else layers[0] + 0.5
    last = middles[-1] if middles else layers[-1] - 0.5
    return np.array([2 * layers[0] - first, *middles, 2 * layers[-1] - last])


def _floats(values: Any) -> NDArray[Any]:
    return np.asarray([] if values is None else values, dtype=float)


def _highest(values: Sequence[float | None]) -> float:
    finite = [value for value in values if value is not None and np.isfinite(value)]
    return max(finite, default=float("-inf"))

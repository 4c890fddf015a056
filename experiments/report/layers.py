"""Where in the model probes read the outcome: the layer curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from experiments.report.formatting import estimate
from experiments.report.metric import Metric, metric_of
from experiments.report.style import INK, LOOKS, MUTED, NULL, Look, styled

FEW_LAYERS = 8

CONTEXTS = {
    "task": ("probe", "task prompt"),
    "self_prediction": ("report_probe", "self-prediction prompt"),
}


def plot_layers(task_result: Mapping[str, Any], ax: Any = None) -> Any:
    """Draw the probe's score by layer in both contexts, with the null band, the text and the words.

    The curves are the whole grid, each at the position that its probe was selected at (other
    positions are thin); the large markers are the nested scores of the selection with their 95%
    intervals. The top of a curve is no such score: it was chosen with the labels that score it.

    Args:
        task_result: one entry of `results["tasks"]` that was not skipped. Its `metric` is what the curves are in, the
            AUROC by default.
        ax: where to draw; a new figure by default.

    Returns:
        The axes.

    Raises:
        ValueError: a site without layers.
    """
    curves = task_result["curves"]
    if not has_layers(task_result):
        raise ValueError("layers: the site of this run has none (embed, final_norm)")
    layers, metric = np.asarray(curves["layers"], dtype=float), metric_of(task_result)
    with styled():
        if ax is None:
            _, ax = plt.subplots(figsize=(5.8, 5.4))
        _null(ax, curves, layers, metric)
        for context, (name, where) in CONTEXTS.items():
            by_position, row = curves.get(context) or {}, task_result.get(name) or {}
            if by_position:
                _context_curves(ax, by_position, layers, row, LOOKS[name], where, metric)
        _levels(ax, task_result, layers, metric)
        ax.set_xlabel(f"layer ({(task_result.get('probe') or {}).get('site', 'residual stream')})")
        ax.set_ylabel(metric.label)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return ax


def has_layers(task_result: Mapping[str, Any]) -> bool:
    """Whether there are curves over layers: a site before the first block or after the last has one cell a position."""
    return None not in (task_result.get("curves") or {}).get("layers", [None])


def _null(ax: Any, curves: Mapping[str, Any], layers: NDArray[Any], metric: Metric) -> None:
    ends = _ends(layers)
    band = _floats(curves.get("null_band"))
    if band.ndim == 2:
        # Over one layer alone a band has no width of its own.
        along, band = (layers, band) if len(layers) > 1 else (ends, band[[0, 0]])
        label = "labels permuted by group: 95% band"
        ax.fill_between(along, band[:, 0], band[:, 1], color=NULL, lw=0, label=label)
    if curves.get("null_max") is not None:
        level = [curves["null_max"]] * 2
        label = "permuted: 95% of grid maxima lie below"
        ax.plot(ends, level, color=MUTED, lw=1, ls=(0, (4, 3)), label=label)
    ax.plot(ends, [metric.chance] * 2, color=MUTED, lw=0.8)


def _ends(layers: NDArray[Any]) -> NDArray[Any]:
    """From where to where a level is drawn across: half a layer around one layer alone."""
    return layers[[0, -1]] + (0.0 if len(layers) > 1 else np.array([-0.5, 0.5]))


def _context_curves(
    ax: Any,
    by_position: Mapping[str, Sequence[float | None]],
    layers: NDArray[Any],
    row: Mapping[str, Any],
    look: Look,
    where: str,
    metric: Metric,
) -> None:
    shown = selected_position(by_position, row)
    # With few layers a curve is read point by point, and a single one is no line at all.
    marker = look.marker if len(layers) <= FEW_LAYERS else None
    for position, values in by_position.items():
        if position != shown:
            thin = {"lw": 0.7, "ls": look.line, "alpha": 0.3, "marker": marker, "ms": 3}
            ax.plot(layers, _floats(values), color=look.color, **thin)
    label = f"probe, {where} ({shown})"
    style = {"ls": look.line, "marker": marker, "ms": 4, "label": label}
    ax.plot(layers, _floats(by_position[shown]), color=look.color, **style)
    if row.get(metric.key) is not None and row.get("layer") is not None:
        _interval(ax, row["layer"], row, look, metric, size=8)


def selected_position(
    by_position: Mapping[str, Sequence[float | None]], row: Mapping[str, Any]
) -> str:
    """The position that the probe was selected at, or else the one with the highest curve."""
    chosen = row.get("position")
    if isinstance(chosen, str) and chosen in by_position:
        return chosen
    return max(by_position, key=lambda position: _highest(by_position[position]))


def _levels(ax: Any, task_result: Mapping[str, Any], layers: NDArray[Any], metric: Metric) -> None:
    """Text and words have no layer: a level across, its interval and its name on the right."""
    ends = _ends(layers)
    step = (ends[1] - ends[0]) / 26
    rows = {
        "text": (task_result.get("baselines") or {}).get("text") or {},
        "verbal": task_result.get("verbal") or {},
    }
    rows = {name: row for name, row in rows.items() if row.get(metric.key) is not None}
    for offset, (name, row) in enumerate(rows.items(), start=1):
        look = LOOKS[name]
        ax.plot(ends, [row[metric.key]] * 2, color=look.color, ls=look.line)
        _interval(ax, ends[1] + step * 1.1 * offset, row, look, metric, size=5)
    low, high = ax.get_ylim()
    heights = spread([row[metric.key] for row in rows.values()], gap=(high - low) * 0.11)
    for (name, row), height in zip(rows.items(), heights, strict=True):
        text = f"{LOOKS[name].label}\n{estimate(row[metric.key], row.get('ci'))}"
        x = ends[1] + step * (len(rows) + 1.1)
        ax.text(x, height, text, va="center", color=INK, fontsize=9, linespacing=1.1)
    ax.set_ylim(low, high)
    ax.set_xticks(layer_ticks(layers))
    ax.spines["bottom"].set_bounds(ends[0] - step / 2, ends[1] + step / 2)


def layer_ticks(layers: NDArray[Any]) -> NDArray[Any]:
    """Where an axis of layers is ticked: at every one of a few, else at round numbers among them."""
    if len(layers) <= FEW_LAYERS:
        return layers
    ticks = MaxNLocator(nbins="auto", integer=True).tick_values(layers[0], layers[-1])
    return np.asarray(ticks[(ticks >= layers[0]) & (ticks <= layers[-1])])


def layer_edges(layers: NDArray[Any]) -> NDArray[Any]:
    """Where the cells of layers `[n]` begin and end, `[n + 1]`: halfway to neighbors; some may be left out."""
    middles = [(a + b) / 2 for a, b in pairwise(layers)]
    first = middles[0] if middles else layers[0] + 0.5
    last = middles[-1] if middles else layers[-1] - 0.5
    return np.array([2 * layers[0] - first, *middles, 2 * layers[-1] - last])


def _interval(
    ax: Any, x: float, row: Mapping[str, Any], look: Look, metric: Metric, *, size: float
) -> None:
    style = {"color": look.color, "marker": look.marker, "ms": size, "mec": "white", "mew": 0.8}
    error = error_bar(row[metric.key], row.get("ci"))
    ax.errorbar([x], [row[metric.key]], yerr=error, lw=1.4, capsize=3, zorder=5, **style)


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


def _floats(values: Any) -> NDArray[Any]:
    return np.asarray([] if values is None else values, dtype=float)


def _highest(values: Sequence[float | None]) -> float:
    finite = [value for value in values if value is not None and np.isfinite(value)]
    return max(finite, default=float("-inf"))

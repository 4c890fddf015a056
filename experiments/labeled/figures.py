"""The figures of a probe of own labels, from its results and scores alone: for its folder and for a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.report.confusion import plot_confusion
from experiments.report.figures import new_figure, write_layer_curves
from experiments.report.heatmap import HeatPanel, heatmap_size, plot_heat_panels
from experiments.report.learning import plot_sample_efficiency
from experiments.report.metric import metric_of
from experiments.report.predictors import plot_predicted_values, plot_reliability
from experiments.report.style import save, styled

FigurePaths = dict[str, Path]
"""Figure (`layers_SITE`, `heatmap_SITE`, `reliability`, `predicted`, `confusion`, `sample_efficiency`) -> its SVG."""


def write_labeled_figures(
    result: Mapping[str, Any], scores: pd.DataFrame, folder: str | Path
) -> FigurePaths:
    """Draw every figure that the results have numbers for into `folder`, as PNG and SVG.

    Args:
        result: as in `results.json` of a probe of own labels.
        scores: as in its `scores.csv`.
        folder: is made.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths: FigurePaths = {}
    metric = metric_of(result)
    for site, curves in result["curves"].items():
        shown = site_result(result, site)
        name = f"layers_{site}"
        paths[name] = write_layer_curves(shown, folder / name)
        panel = HeatPanel(site, curves["layers"], curves["task"], shown["probe"])
        with styled():
            figure = new_figure(*heatmap_size([panel]))
            plot_heat_panels(figure, [panel], metric)
            paths[f"heatmap_{site}"] = save(figure, folder / f"heatmap_{site}")
    with styled():
        if result["kind"] == "binary":
            drawn = [name for name in ("probe", "text") if f"{name}_probability" in scores]
            figure = new_figure(0.6 + 2.4 * max(len(drawn), 1.4), 4.6)
            known = scores.rename(columns={"label": "outcome"})
            plot_reliability(figure, known, drawn)
            paths["reliability"] = save(figure, folder / "reliability")
        if result["kind"] == "rate":
            figure = new_figure(5.0, 4.8)
            plot_predicted_values(figure.subplots(), scores["label"], scores["probe"])
            paths["predicted"] = save(figure, folder / "predicted")
        if result["kind"] == "classes":
            side = 2.6 + 0.55 * len(result["classes"])
            figure = new_figure(side + 0.8, side)
            plot_confusion(figure.subplots(), result["probe"]["confusion"], result["classes"])
            paths["confusion"] = save(figure, folder / "confusion")
        if result.get("sample_efficiency"):
            figure = new_figure(5.4, 4.6)
            plot_sample_efficiency(figure.subplots(), result)
            paths["sample_efficiency"] = save(figure, folder / "sample_efficiency")
    return paths


def site_result(result: Mapping[str, Any], site: str) -> dict[str, Any]:
    """What `plot_layers` draws of one site: its curves, and the selected probe where it lies there."""
    probe = result["probe"] if result["probe"]["site"] == site else {"site": site}
    return {
        "metric": result["metric"],
        "curves": result["curves"][site],
        "probe": probe,
        "baselines": result["baselines"],
    }

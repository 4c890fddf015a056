"""The figures of a run, written as PNG and SVG: the same results give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.report.heatmap import heatmap_size, plot_heatmap, run_panels
from experiments.report.layers import has_layers, plot_layers
from experiments.report.predictors import forest_rows, plot_forest, plot_reliability, plot_roc
from experiments.report.style import save, styled
from experiments.report.words_only import is_words_only

FigurePaths = dict[str, dict[str, Path]]
"""Task -> figure (`layers`, `heatmap`, `roc`, `reliability`, `predictors`) -> its SVG."""


def write_figures(
    results: Mapping[str, Any], scores: pd.DataFrame, folder: str | Path
) -> FigurePaths:
    """Draw the figures of every task that was not skipped into `folder`, which is made.

    Every SVG has a PNG of 200 dpi beside it.

    Args:
        results: as in `results.json`.
        scores: a row an item and task.
        folder: where `TASK_FIGURE.png` and `TASK_FIGURE.svg` go.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return {
        name: _task_figures(task_result, scores[scores["task"] == name], folder / name)
        for name, task_result in results["tasks"].items()
        if not task_result.get("skipped")
    }


def write_layer_curves(task_result: Mapping[str, Any], stem: Path) -> Path:
    """Draw `plot_layers` into `stem`.png and `stem`.svg; the SVG's path."""
    with styled():
        figure = new_figure(5.8, 5.4)
        plot_layers(task_result, figure.subplots())
        return save(figure, stem)


def _task_figures(
    task_result: Mapping[str, Any], scores: pd.DataFrame, stem: Path
) -> dict[str, Path]:
    paths: dict[str, Path] = {}

    def keep(name: str, figure: Any) -> None:
        paths[name] = save(figure, stem.with_name(f"{stem.name}_{name}"))

    readers = ("verbal",) if is_words_only(task_result) else ("probe", "verbal")
    with styled():
        panels = run_panels(task_result) if has_layers(task_result) else []
        if panels:
            figure = new_figure(5.8, 5.4)
            plot_layers(task_result, figure.subplots())
            keep("layers", figure)
            figure = new_figure(*heatmap_size(panels))
            plot_heatmap(figure, task_result)
            keep("heatmap", figure)
        figure = new_figure(5.4, 6.2)
        plot_roc(figure.subplots(), task_result, scores)
        keep("roc", figure)
        figure = new_figure(5.4, 4.6)
        plot_reliability(figure, scores, readers)
        keep("reliability", figure)
        figure = new_figure(5.8, 1.2 + 0.34 * max(len(forest_rows(task_result)), 1))
        plot_forest(figure.subplots(), task_result)
        keep("predictors", figure)
    return paths


class ShownFigure(Figure):
    """A figure that a notebook shows, whether or not pyplot was ever imported there."""

    def _repr_png_(self) -> bytes:
        image = BytesIO()
        self.savefig(image, format="png")
        return image.getvalue()


def new_figure(width: float, height: float) -> Any:
    """A figure of so many inches outside pyplot, which would keep it alive."""
    figure = ShownFigure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure

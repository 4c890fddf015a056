"""The figure of a sweep: a panel a task, a row a model, context and probe, a point with its interval a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.report.style import INK, LOOKS, MUTED, save, styled
from experiments.sweeps.cells import RUN_SETTINGS

_LOOK_OF_CONTEXT = {"task": LOOKS["probe"], "self_prediction": LOOKS["report_probe"]}
_NAMED = ("model", "task", "context", "probe", "seed")
_OF_ROWS = ("context", "probe")
_VARIED = tuple(
    "items_sha256" if name == "items" else name for name in RUN_SETTINGS if name not in _NAMED
)
_BANDS = ("#FFFFFF", "#F5F5F5")
"""Behind the rows, in turn, so that the eye keeps to one."""
_SHORT = 12
"""Rows, beyond which the numbers stand above them too."""
_PITCH = 0.17
"""Inches a seed takes."""
_TALLEST = 300.0
"""Inches; beyond it a PNG of 200 dpi could not be written."""


def write_figure(table: pd.DataFrame, stem: Path) -> Path:
    """Draw the table of a sweep into `stem`.png and `stem`.svg, the same bytes every time; the SVG's path."""
    with styled():
        figure = _draw(table)
        return save(figure, stem)


def _draw(table: pd.DataFrame) -> Any:
    tasks = list(dict.fromkeys(table["task"]))
    varied = [name for name in _VARIED if table[name].nunique(dropna=False) > 1]
    rows = _rows(table, varied)
    n_seeds = table["seed"].nunique()
    pitch = 0.6 + n_seeds  # of a row, in seeds; a heading takes as much as one and a half
    heights = [1.5 if cells is None else pitch for _, cells in rows]
    total = sum(heights)
    figure = Figure(figsize=(2.9 + 3.1 * len(tasks), min(1.1 + _PITCH * total, _TALLEST)))
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    tops = [sum(heights[:index]) for index in range(len(rows))]
    for panel, task in zip(panels, tasks, strict=True):
        panel.set_title(task, loc="left")
        panel.axvline(0.5, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        panel.grid(axis="y", visible=False)
        panel.tick_params(axis="y", length=0)
        panel.tick_params(axis="x", labeltop=len(rows) > _SHORT)
        for index, ((_, cells), top) in enumerate(zip(rows, tops, strict=True)):
            if cells is not None:
                panel.axhspan(top, top + pitch, color=_BANDS[index % 2], linewidth=0, zorder=0)
                _draw_row(panel, cells[cells["task"] == task], top + 0.8)
        panel.set_xlim(*_limits(table))
        panel.set_xlabel("AUROC, 95% interval, a line a seed")
    _label_rows(panels[0], rows, tops, heights)
    panels[0].set_ylim(total, 0)
    _add_legend(figure, table)
    return figure


def _rows(table: pd.DataFrame, varied: list[str]) -> list[tuple[str, pd.DataFrame | None]]:
    """(label, its cells over all tasks and seeds), with a heading without cells before each model's."""
    rows: list[tuple[str, pd.DataFrame | None]] = []
    for model, of_model in table.groupby("model", sort=False):
        rows.append((_shortened(str(model)), None))
        keys = [*_OF_ROWS, *varied]
        for _, cells in of_model.groupby(keys, sort=False, dropna=False):
            rows.append((_label(cells.iloc[0], varied), cells))
    return rows


def _shortened(model: str) -> str:
    """The end of a long path, where models differ."""
    return model if len(model) <= 34 else "\N{HORIZONTAL ELLIPSIS}" + model[-33:]


def _label(cell: pd.Series[Any], varied: list[str]) -> str:
    context = {"task": "prompt", "self_prediction": "answer slot"}[cell["context"]]
    others = [f"{name} {str(cell[name])[:24]}" for name in varied]
    return ", ".join([context, str(cell["probe"]), *others])


def _draw_row(panel: Any, cells: pd.DataFrame, top: float) -> None:
    text = LOOKS["text"]
    for offset, (_, cell) in enumerate(cells.sort_values("seed", kind="stable").iterrows()):
        y = top + offset
        if cell["status"] != "done":
            note = f"seed {cell['seed']} {cell['status']}: {cell['reason']}"
            shown = note if len(note) <= 58 else note[:57] + "\N{HORIZONTAL ELLIPSIS}"
            across = panel.get_yaxis_transform()
            panel.text(0.02, y, shown, color=MUTED, fontsize=6.5, va="center", transform=across)
            continue
        look = _LOOK_OF_CONTEXT[cell["context"]]
        panel.plot([cell["ci_low"], cell["ci_high"]], [y, y], color=look.color, linewidth=1.4)
        panel.plot(cell["auroc"], y, look.marker, color=look.color, markersize=4.5)
        panel.plot(
            cell["text_auroc"], y, text.marker, color=text.color, markersize=4.5, fillstyle="none"
        )


def _limits(table: pd.DataFrame) -> tuple[float, float]:
    lowest = table[["ci_low", "text_auroc"]].astype(float).min().min()
    return max(0.0, min(0.4, lowest - 0.02)) if pd.notna(lowest) else 0.4, 1.0


def _label_rows(
    panel: Any,
    rows: list[tuple[str, pd.DataFrame | None]],
    tops: list[float],
    heights: list[float],
) -> None:
    panel.set_yticks([top + height / 2 for top, height in zip(tops, heights, strict=True)])
    panel.set_yticklabels([label for label, _ in rows], fontsize=8.5)
    for tick, (_, cells) in zip(panel.get_yticklabels(), rows, strict=True):
        tick.set_color(INK)
        if cells is None:
            tick.set_fontweight("bold")


def _add_legend(figure: Any, table: pd.DataFrame) -> None:
    named = {"task": "probe, prompt", "self_prediction": "probe, answer slot"}
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, markersize=4.5, label=named[context])
        for context, look in _LOOK_OF_CONTEXT.items()
        if context in set(table["context"])
    ]
    text = LOOKS["text"]
    handles.append(
        Line2D(
            [],
            [],
            color=text.color,
            marker=text.marker,
            linestyle="none",
            fillstyle="none",
            markersize=4.5,
            label=text.label,
        )
    )
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))

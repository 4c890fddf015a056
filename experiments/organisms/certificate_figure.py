"""The figure of the certificate: right, wrong and undetermined over the planted loss and the number of items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.organisms.planted import PLANTED_STAGES
from experiments.report.style import INK, MUTED, save, styled

_LOOKS = {
    "right": ("right", "#0072B2", "", "#FFFFFF"),
    "undetermined": ("undetermined", "#DDDDDD", "", "#BBBBBB"),
    "wrong": ("wrong", "#D55E00", "////", "#FFFFFF"),
}
"""Share of the certificate -> label, color (Okabe and Ito 2008), hatch and its color; from the bottom up."""
_LOSSES = {
    "not_beyond_text": "text and states\nover chance",
    "not_transported": "slot under\ntask state",
    "not_read_out": "words under\nslot",
    "unparsed": "answers that\ncannot be parsed",
    "miscalibrated": "criterion of\nthe answers",
    "faithful": "states over\nthe text",
}
"""What is graded in the column of a stage."""


def write_figure(shares: pd.DataFrame, stem: Path) -> Path:
    """Draw the graded conditions of `Certificate.shares` into `stem`.png and `stem`.svg; the SVG's path."""
    with styled():
        return save(_draw(shares[shares["suite"] == "graded"]), stem)


def _draw(shares: pd.DataFrame) -> Any:
    sizes = list(shares[["n", "delta"]].drop_duplicates().itertuples(index=False))
    figure = Figure(figsize=(11.5, 1.5 + 1.75 * len(sizes)))
    FigureCanvasAgg(figure)
    panels = figure.subplots(
        len(sizes), len(PLANTED_STAGES), sharex=True, sharey=True, squeeze=False
    )
    for row, (n, delta) in zip(panels, sizes, strict=True):
        here = shares[(shares["n"] == n) & (shares["delta"] == delta)]
        for panel, stage in zip(row, PLANTED_STAGES, strict=True):
            _draw_bars(panel, here[here["name"] == stage])
        row[0].set_ylabel(f"{n} items, d = {delta:g}\n\nshare", color=INK)
    for panel, stage in zip(panels[0], PLANTED_STAGES, strict=True):
        panel.set_title(stage, loc="left", fontsize=10.5, fontweight="bold", pad=33)
        panel.text(
            0,
            1.03,
            _LOSSES[stage],
            transform=panel.transAxes,
            fontsize=8.5,
            color=MUTED,
            va="bottom",
        )
    figure.supxlabel("what is planted, in margins of the rule that it concerns", fontsize=11)
    figure.legend(
        handles=[
            Patch(facecolor=color, hatch=hatch, edgecolor=edge, label=label)
            for label, color, hatch, edge in _LOOKS.values()
        ],
        loc="outside upper right",
        ncols=3,
    )
    return figure


def _draw_bars(panel: Any, rows: pd.DataFrame) -> None:
    places = np.arange(len(rows))
    bottom = np.zeros(len(rows))
    for outcome, (_, color, hatch, edge) in _LOOKS.items():
        heights = rows[outcome].to_numpy(dtype=float)
        panel.bar(
            places, heights, 0.82, bottom, color=color, hatch=hatch, edgecolor=edge, linewidth=0.6
        )
        bottom += heights
    panel.set_xticks(places, [f"{multiple:g}" for multiple in rows["multiple"]])
    panel.set_yticks([0, 0.5, 1], ["0", "½", "1"])
    panel.set_ylim(0, 1)
    panel.grid(visible=False)
    panel.tick_params(length=0)

"""A dot plot of predictors: a row a model, a dot with its interval a predictor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.report.layers import error_bar
from experiments.report.style import LOOKS, MUTED, Look, save, styled
from probes import Interval

_SPREAD = 0.8
"""Of the predictors of one model, where models are 1 apart."""


@dataclass(frozen=True)
class DotRow:
    """One model: its label and the score of every predictor."""

    label: str
    scores: Mapping[str, Interval]


def write_dots(
    rows: Sequence[DotRow],
    looks: Mapping[str, str],
    named: Mapping[str, str],
    label: str,
    stem: Path,
    *,
    chance: float | None = None,
) -> Path:
    """Draw the rows, from the top, into `stem`.png and `stem`.svg.

    Args:
        rows: at least one; a predictor that a row lacks is left out of it.
        looks: keys of `LOOKS` by predictor, in the order of the legend.
        named: the predictors' names.
        label: of the axis.
        stem: of the files.
        chance: a score to mark by a line.

    Returns:
        The path of the SVG.
    """
    shown = [name for name in looks if any(name in row.scores for row in rows)]
    with styled():
        figure = Figure(figsize=(7.6, 1.5 + 0.62 * len(rows)))
        FigureCanvasAgg(figure)
        ax = figure.subplots()
        if chance is not None:
            ax.axvline(chance, color=MUTED, lw=0.9, ls=":")
        step = _SPREAD / len(shown)
        for place, name in enumerate(shown):
            offset = (place - (len(shown) - 1) / 2) * step
            _dots(ax, rows, name, LOOKS[looks[name]], named[name], offset)
        for boundary in range(1, len(rows)):
            ax.axhline(boundary - 0.5, color=MUTED, lw=0.4, alpha=0.5)
        ax.set_yticks(range(len(rows)), labels=[row.label for row in rows])
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_xlabel(label)
        ax.tick_params(axis="y", length=0)
        ax.grid(False, axis="y")
        figure.legend(
            loc="outside upper center",
            ncols=3 if len(shown) > 4 else 4,
            handletextpad=0.3,
            columnspacing=1.2,
        )
        return save(figure, stem)


def _dots(
    ax: Any, rows: Sequence[DotRow], name: str, look: Look, in_legend: str, offset: float
) -> None:
    label: str | None = in_legend
    for place, row in enumerate(rows):
        if name not in row.scores:
            continue
        interval = row.scores[name]
        ax.errorbar(
            [interval.estimate],
            [place + offset],
            xerr=error_bar(interval.estimate, (interval.low, interval.high)),
            color=look.color,
            marker=look.marker,
            ms=6.5,
            mec="white",
            mew=0.5,
            lw=1.4,
            label=label,
        )
        label = None

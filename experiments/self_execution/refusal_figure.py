"""A dot plot of refusal scores: every predictor of every model's behavior, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.report.layers import error_bar
from experiments.report.style import LOOKS, MUTED, save, styled
from experiments.self_execution.refusal import Predictor, Reading, RefusalScore
from experiments.self_execution.refusal_tables import NAMES

_LOOKS: dict[Predictor, str] = {
    "self": "verbal",
    "label": "text",
    "others": "probe",
    "constant": "baseline",
}
_STEP = 0.2
"""Between the predictors of one model, where models are 1 apart."""


def write_refusal_figure(scores: Sequence[RefusalScore], stem: Path, reading: Reading) -> Path:
    """Draw one reading of the scores into `stem`.png and `stem`.svg; models by the lead of their self-prediction.

    Returns:
        The path of the SVG.
    """
    ordered = sorted(
        scores, key=lambda s: s.readings[reading].self_minus["label"].estimate, reverse=True
    )
    with styled():
        figure = Figure(figsize=(7.6, 1.5 + 0.62 * len(scores)))
        FigureCanvasAgg(figure)
        ax = figure.subplots()
        for place, name in enumerate(scores[0].readings[reading].accuracy):
            offset = (place - (len(scores[0].readings[reading].accuracy) - 1) / 2) * _STEP
            _predictor(ax, ordered, reading, name, offset)
        for boundary in range(1, len(ordered)):
            ax.axhline(boundary - 0.5, color=MUTED, lw=0.4, alpha=0.5)
        ax.set_yticks(range(len(ordered)), labels=[_label(score) for score in ordered])
        ax.set_ylim(len(ordered) - 0.4, -0.6)
        ax.set_xlabel(f"accuracy about the model's judged behavior, {reading} (95% interval)")
        ax.tick_params(axis="y", length=0)
        ax.grid(False, axis="y")
        figure.legend(loc="outside upper center", ncols=4, handletextpad=0.3, columnspacing=1.2)
        return save(figure, stem)


def _predictor(
    ax: Any, scores: Sequence[RefusalScore], reading: Reading, name: Predictor, offset: float
) -> None:
    look = LOOKS[_LOOKS[name]]
    for row, score in enumerate(scores):
        interval = score.readings[reading].accuracy[name]
        ax.errorbar(
            [interval.estimate],
            [row + offset],
            xerr=error_bar(interval.estimate, (interval.low, interval.high)),
            color=look.color,
            marker=look.marker,
            ms=6.5,
            mec="white",
            mew=0.5,
            lw=1.4,
            label=NAMES[name] if row == 0 else None,
        )


def _label(score: RefusalScore) -> str:
    return f"{score.model}\n{score.n_scored} of {score.n_prompts} prompts"

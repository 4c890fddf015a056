"""How predictors look in every figure: an Okabe-Ito color, a line style and a marker for each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

INK = "#222222"
MUTED = "#666666"
NULL = "#D9D9D9"
SEQUENTIAL = "cividis"
"""The color map of heat maps: even in lightness, and the same to most color-blind readers."""


@dataclass(frozen=True)
class Look:
    """The label and the marks of one predictor."""

    label: str
    color: str
    line: Any
    marker: str


LOOKS = {
    "probe": Look("probe", "#0072B2", "-", "o"),
    "report_probe": Look("probe at the answer slot", "#009E73", (0, (5, 1.5)), "s"),
    "transferred_probe": Look("task probe, moved there", "#009E73", (0, (2, 2)), "X"),
    "verbal": Look("words", "#D55E00", (0, (1.2, 1.2)), "D"),
    "supervised_words": Look("words, supervised", "#D55E00", (0, (1.2, 3)), "P"),
    "text": Look("text alone", "#CC79A7", (0, (5, 1.5, 1.2, 1.5)), "^"),
    "baseline": Look("baseline", "#666666", (0, (3, 3)), "v"),
    "control": Look("control", "#8A6D00", (0, (1, 2)), "d"),
    "peer": Look("another model", "#56B4E9", (0, (3, 1, 1, 1)), "<"),
}

_RC = {
    "axes.grid": True,
    "axes.labelsize": 11,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11.5,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "grid.color": "#ECECEC",
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "path",
    "svg.hashsalt": "selfprobe",
    "text.parse_math": False,  # a "$" in a task's or a position's name is a dollar
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw inside it; the caller's matplotlib settings come back afterwards."""
    with matplotlib.rc_context(_RC), warnings.catch_warnings():
        # A user's name in a script that the font lacks is drawn as boxes, and stands in the tables as it is.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
        yield


def save(figure: Any, stem: Path) -> Path:
    """Write `stem`.png (200 dpi) and `stem`.svg, the same bytes every time; the SVG's path."""
    png, svg = stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".svg")
    figure.savefig(png, dpi=200, metadata={"Software": None})
    figure.savefig(svg, dpi=200, metadata={"Date": None, "Creator": None})
    return svg

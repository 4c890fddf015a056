"""What every re-scoring of released results hands over: a text, JSON, rows of a table, a figure, published figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.self_execution.published import Figures


@dataclass(frozen=True)
class Report:
    """The scores of one task's files."""

    text: str
    """Tables in Markdown, and sentences."""
    json: dict[str, Any]
    """`models` holds a row a file."""
    rows: Sequence[dict[str, Any]]
    """A row a model, reading and predictor."""
    figures: Sequence[Figures]
    draw: Callable[[Path], Path]
    """Draws stem.png and stem.svg; gives the path of the SVG."""

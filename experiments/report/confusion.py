"""Which classes a probe takes for which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.report.style import INK, SEQUENTIAL

_LONGEST = 24


def plot_confusion(
    ax: Any, counts: Sequence[Sequence[float]], classes: Mapping[str, int] | Sequence[str]
) -> None:
    """Draw the share of every class's items that each class was predicted for, out-of-fold, with the share in the cell.

    Args:
        ax: where to draw.
        counts: items `[class, predicted]`.
        classes: names, in the order of both axes.
    """
    names, table = [_shown(str(name)) for name in classes], np.asarray(counts, dtype=float)
    totals = table.sum(axis=1)
    shares = table / totals[:, None]
    ax.imshow(shares, cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        color = "white" if share < 0.55 else INK
        ax.text(column, row, f"{share:.2f}", ha="center", va="center", fontsize=9, color=color)
    labels = [f"{name} ({total:.0f})" for name, total in zip(names, totals, strict=True)]
    ax.set_yticks(range(len(names)), labels=labels)
    ax.set_xticks(range(len(names)), labels=names, rotation=35, ha="right", rotation_mode="anchor")
    ax.set(xlabel="predicted, held out", ylabel="label (items)")
    ax.tick_params(length=0)
    ax.grid(False)


def _shown(name: str) -> str:
    """On one line, its beginning if it is long: the axes need the room."""
    line = " ".join(name.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"

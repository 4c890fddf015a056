"""Draws docs/results.png: every predictor of some tasks side by side, from the folders of finished runs.

python docs/draw_results.py runs/quickstart runs/association
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from experiments import load_run
from experiments.report.predictors import forest_rows, mark_row
from experiments.report.style import MUTED, styled

LEFT_OUT = ("stratum", "type", "kind", "length", "tfidf words", "tfidf characters")
"""Parts of the text alone, which is shown."""


def draw(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw a panel a task: AUROC with its 95% interval, a row a predictor, chance as a line."""
    rows = [
        {row.name: row for row in forest_rows(one) if row.name not in LEFT_OUT} for one in results
    ]
    names = list(dict.fromkeys(name for of_task in rows for name in of_task))
    with styled():
        figure, panels = plt.subplots(
            1, len(results), figsize=(11, 0.36 * len(names) + 1.3), sharex=True, sharey=True
        )
        for axes, result, of_task in zip(panels, results, rows, strict=True):
            stage = result["breakdown"]["stage"]
            axes.set_title(
                f"{result['task']}: {result['n_items']} items\n{stage.replace('_', ' ')}"
            )
            chance = axes.axvline(0.5, color=MUTED, lw=1, label="chance")
            null = axes.axvline(result["curves"]["null_max"], color=MUTED, lw=1.2, ls=":")
            null.set_label("best cell of the grid under shuffled labels: 95% lie below")
            for y, name in enumerate(names):
                if name in of_task:
                    mark_row(axes, y, of_task[name])
            axes.set_xlabel("AUROC (95% interval)")
            axes.tick_params(axis="y", length=0)
        panels[0].set_yticks(range(len(names)), labels=names)
        panels[0].set_ylim(len(names) - 0.4, -0.6)
        figure.legend(handles=[chance, null], loc="outside lower center", ncols=2)
        figure.savefig(path, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    runs = [load_run(folder) for folder in sys.argv[1:]]
    draw(
        [one for run in runs for one in run.results["tasks"].values()],
        Path(__file__).with_name("results.png"),
    )

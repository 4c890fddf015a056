"""Draws docs/results.png and prints its table: every predictor of some tasks, from the folders of finished runs.

python docs/draw_results.py runs/quickstart runs/association
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from experiments import load_run
from experiments.report.formatting import auroc, gain, number, p_value
from experiments.report.predictors import forest_rows, mark_row
from experiments.report.style import MUTED, styled

LEFT_OUT = ("stratum", "type", "kind", "length", "tfidf words", "tfidf characters")
"""Parts of the text alone, which is shown."""


Results = Sequence[Mapping[str, Any]]


def draw(results: Results, path: Path) -> None:
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


def table(results: Results) -> str:
    """The same and what it stands on in Markdown, a column a task."""
    rows = [{row.name: row.row for row in forest_rows(one)} for one in results]
    names = dict.fromkeys(name for of_task in rows for name in of_task)
    lines = [
        ("", [one["task"] for one in results]),
        ("---", ["---"] * len(results)),
        ("items, groups", [f"{one['n_items']}, {one['n_groups']}" for one in results]),
        ("base rate of outcome 1", [number(one["base_rate"]) for one in results]),
        *((name, [auroc(of_task.get(name)) for of_task in rows]) for name in names),
        *(
            (label, [gain(one["gap"].get(key)) for one in results])
            for label, key in (
                ("text + probe stacked, minus text", "beyond_text"),
                ("probe minus words", "probe_minus_verbal"),
                ("words minus text", "verbal_minus_text"),
            )
        ),
        (
            "95% of the grid's best cells under shuffled labels lie below",
            [number(one["curves"]["null_max"]) for one in results],
        ),
        ("p of the grid's best cell", [p_value(one["probe"]["p_max"]) for one in results]),
        (
            "probe, whole kinds held out",
            [auroc((one["second_split"] or {}).get("probe")) for one in results],
        ),
        ("**stage**", [f"`{one['breakdown']['stage']}`" for one in results]),
    ]
    return "\n".join(f"| {' | '.join((name, *cells))} |" for name, cells in lines)


if __name__ == "__main__":
    tasks = [task for folder in sys.argv[1:] for task in load_run(folder).results["tasks"].values()]
    draw(tasks, Path(__file__).with_name("results.png"))
    print(table(tasks))

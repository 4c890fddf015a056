"""The figures of a comparison: what every method foretells on every test, and what more data gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.report.figures import new_figure
from experiments.report.style import INK, LOOKS, MUTED, Look, save, styled
from experiments.self_prediction.config import CONTROLS, METHODS, Method
from experiments.self_prediction.material import TESTS
from experiments.self_prediction.table import method_label

METHOD_LOOKS: dict[Method, Look] = {
    "words": LOOKS["verbal"],
    "probe": LOOKS["probe"],
    "text": LOOKS["text"],
    "head": Look("", "#009E73", "-", "s"),
    "joint": Look("", "#009E73", (0, (5, 1.5)), "P"),
    "joint_stop_gradient": Look("", "#009E73", (0, (1.2, 1.2)), "X"),
    "sft": Look("", "#E69F00", "-", "D"),
    "rl": Look("", "#E69F00", (0, (3, 2)), "h"),
}
"""What reads states is blue or green, what speaks is red or orange; a marker and a line of its own each."""

_BANDS = ("#FFFFFF", "#F5F5F5")
_ROW = 0.3
"""Inches a row takes."""
_PANEL = 2.15
"""Inches a panel takes, and the names of the methods."""
_NAMES = 3.6


def write_comparison_figures(results: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw `TASK.png` and `.svg` of every task, and `TASK_sizes` where there are several sizes; the SVGs' paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with styled():
        for task in results["config"]["tasks"]:
            rows = [row for row in results["rows"] if row["task"] == task]
            if not rows:
                continue
            paths.append(save(_forest(task, rows), folder / task))
            if len({row["size"] for row in rows if row["labels"] == "true"}) > 1:
                paths.append(save(_curves(task, rows), folder / f"{task}_sizes"))
    return paths


def _forest(task: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    """A panel a test for the AUROC and one for the skill of answers, a row a method; dots are seeds."""
    first = [row for row in rows if row["size"] == 1]
    labels = list(dict.fromkeys(method_label(row) for row in _ordered(first)))
    tests = [test for test in TESTS if any(row["test"] == test for row in first)]
    panels = [("auroc", test) for test in tests] + [("skill", "held_out_groups")]
    figure = new_figure(_NAMES + _PANEL * len(panels), 1.5 + _ROW * len(labels))
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (metric, test) in zip(axes, panels, strict=True):
        for place in range(len(labels)):
            axis.axhspan(place - 0.5, place + 0.5, color=_BANDS[place % 2], linewidth=0, zorder=0)
        axis.axvline(
            0.5 if metric == "auroc" else 0.0,
            color=MUTED,
            linewidth=0.9,
            linestyle=(0, (4, 3)),
            zorder=1,
        )
        for row in first:
            if row["test"] == test:
                _draw_point(axis, row, metric, labels.index(method_label(row)))
        axis.set_title(TESTS[test] if metric == "auroc" else "skill of answers", loc="left")
        axis.set_xlabel("AUROC" if metric == "auroc" else "strict score above\nthe best constant")
        axis.grid(axis="y", visible=False)
        axis.tick_params(axis="y", length=0)
        if metric == "auroc":
            axis.set_xlim(_lowest(first), 1.04)  # a mark at 1 is whole
            axis.set_xticks([x for x in (0.0, 0.25, 0.5, 0.75, 1.0) if x >= _lowest(first)])
            axis.xaxis.set_major_formatter("{x:g}")
    axes[0].set_yticks(range(len(labels)), labels, color=INK)
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    figure.suptitle(
        f"{task}: filled, true labels; hollow, controls; bars, 95% intervals; small dots, seeds",
        x=0.01,
        ha="left",
        fontsize=10.5,
    )
    return figure


def _ordered(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Methods with true labels first, then those with each kind of others."""
    kinds = ["none", "true", *CONTROLS]
    methods = list(METHODS)
    return sorted(
        rows,
        key=lambda row: (max(kinds.index(row["labels"]), 1), methods.index(row["method"])),
    )


def _lowest(rows: Sequence[Mapping[str, Any]]) -> float:
    lows: list[float] = [row["auroc_ci"][0] for row in rows if row["auroc_ci"][0] is not None]
    return min([0.35, *lows]) - 0.04


def _draw_point(axis: Any, row: Mapping[str, Any], metric: str, place: int) -> None:
    look = METHOD_LOOKS[row["method"]]
    low, high = row[f"{metric}_ci"]
    axis.plot([low, high], [place, place], color=look.color, linewidth=1.5, zorder=2)
    if metric == "auroc" and row["n_seeds"] > 1:
        seeds = row["auroc_of_seeds"]
        axis.plot(seeds, [place + 0.27] * len(seeds), ".", color=look.color, markersize=3, zorder=2)
    axis.plot(
        row[metric],
        place,
        look.marker,
        color=look.color,
        markerfacecolor="white" if row["labels"] in CONTROLS else look.color,
        markersize=6,
        zorder=3,
    )


def _curves(task: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    """AUROC and skill on held-out groups against the number of training items, a line a method."""
    figure = new_figure(8.6, 4.2)
    axes = figure.subplots(1, 2)
    of_test = [row for row in rows if row["test"] == "held_out_groups"]
    for axis, metric, chance in zip(axes, ("auroc", "skill"), (0.5, 0.0), strict=True):
        axis.axhline(chance, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        for method, look in METHOD_LOOKS.items():
            own = sorted(
                (row for row in of_test if row["method"] == method and row["labels"] == "true"),
                key=lambda row: row["n_train"],
            )
            sizes = [row["n_train"] for row in own]
            if own:
                axis.plot(
                    sizes,
                    [row[metric] for row in own],
                    color=look.color,
                    linestyle=look.line,
                    marker=look.marker,
                    label=METHODS[method],
                )
        for row in (row for row in of_test if row["method"] == "words"):
            axis.axhline(
                row[metric],
                color=LOOKS["verbal"].color,
                linestyle=LOOKS["verbal"].line,
                label=METHODS["words"],
            )
        axis.set_xscale("log")
        ticks = sorted({row["n_train"] for row in of_test if row["n_train"]})
        axis.set_xticks(ticks, [str(one) for one in ticks])
        axis.minorticks_off()
        axis.set_xlabel("training items")
        axis.set_ylabel({"auroc": "AUROC", "skill": "skill of answers"}[metric])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper")
    figure.suptitle(f"{task}: held-out groups", x=0.01, ha="left")
    return figure

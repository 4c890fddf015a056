"""The figures of `causal.json`: dose-responses against their nulls, and the dissociation table as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.causal.effects import MARGIN
from experiments.causal_record import DIRECTIONS, READOUTS
from experiments.report.figures import new_figure
from experiments.report.formatting import p_value
from experiments.report.layers import error_bar
from experiments.report.style import INK, MUTED, NULL, save, styled

_COLORS = {"probe": "#0072B2", "diff_means": "#D55E00"}
_MARKERS = {"probe": "o", "diff_means": "s"}
_SHUFFLED = "#B9A26A"


def write_causal_figures(
    tasks: Mapping[str, Mapping[str, Any]], folder: str | Path
) -> dict[str, dict[str, Path]]:
    """Draw both figures of every task of `causal.json` into `folder`: `causal-TASK-steering` and
    `causal-TASK-dissociation`, SVG and PNG; the SVGs' paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths: dict[str, dict[str, Path]] = {}
    for name, found in tasks.items():
        paths[name] = {}
        with styled():
            for kind, draw in (("steering", plot_doses), ("dissociation", plot_dissociation)):
                stem = folder / f"causal-{name}-{kind}"
                paths[name][kind] = save(draw(found), stem)
    return paths


@styled()
def plot_doses(found: Mapping[str, Any]) -> Any:
    """The mean movement of every readout by dose: both directions, random and shuffled-label ones."""
    steering = found["steering"]
    names = [name for name in READOUTS if name in steering]
    figure = new_figure(7.6, 2.9 * ((len(names) + 1) // 2) + 0.5)
    axes = np.atleast_1d(figure.subplots((len(names) + 1) // 2, 2, squeeze=False)).ravel()
    for ax, name in zip(axes, names, strict=False):
        _dose_panel(ax, steering[name], READOUTS[name])
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    for ax in axes[-2:]:
        ax.set_xlabel("dose, multiples of the states' spread")
    figure.supylabel("movement of the log-odds, nats")
    return figure


def _dose_panel(ax: Any, row: Mapping[str, Any], title: str) -> None:
    doses = np.asarray(row["doses"], dtype=float)
    for kind, color, style, label in (
        ("shuffled", _SHUFFLED, "--", "shuffled labels"),
        ("random", "#9A9A9A", "-", "random"),
    ):
        for number, curve in enumerate(row[kind]):
            values = np.asarray(curve, dtype=float)
            ax.plot(
                doses,
                values,
                color=color,
                lw=0.6,
                ls=style,
                alpha=0.7,
                label=label if not number else None,
            )
    for name, curve in (("diff_means", row["diff_means"]), ("probe", row)):
        values = np.asarray(curve["direction"], dtype=float)
        bounds = np.asarray(curve["direction_ci"], dtype=float)
        spread = np.stack([values - bounds[:, 0], bounds[:, 1] - values])
        within = np.asarray(curve["within"], dtype=bool)
        marks: dict[str, Any] = {"color": _COLORS[name], "marker": _MARKERS[name], "ms": 5}
        ax.errorbar(doses, values, yerr=spread, lw=1.8, capsize=2, label=DIRECTIONS[name], **marks)
        ax.plot(doses[~within], values[~within], "x", color=INK, ms=9, mew=1.5)
    ax.axhline(0, color=MUTED, lw=0.8)
    ax.set_title(f"{title}\n{_judged(row)}")


def _judged(row: Mapping[str, Any]) -> str:
    return f"probe: {row['moved']}, {p_value(row.get('p'), row.get('n_null'))}"


@styled()
def plot_dissociation(found: Mapping[str, Any]) -> Any:
    """What moves at the test dose, along both directions, with 95% intervals, what random directions reach, and within
    what an interval says that nothing moves."""
    table = found["dissociation"]
    names = [name for name in READOUTS if name in table["rows"]]
    figure = new_figure(7.2, 1.7 + 0.6 * len(names))
    ax = figure.subplots()
    for place, name in enumerate(names):
        margin = MARGIN * found["steering"][name]["baseline"]["spread"]
        ax.vlines(
            [-margin, margin],
            place - 0.3,
            place + 0.3,
            colors=INK,
            lw=1.2,
            zorder=3,
            label=None if place else "an interval between: does not move",
        )
        for offset, (direction, rows) in enumerate(
            (("probe", table["rows"]), ("diff_means", table["diff_means"]["rows"]))
        ):
            row = rows[name]
            y = place - 0.14 + 0.28 * offset
            level = row.get("random_level") or 0.0
            ax.barh(
                y,
                2 * level,
                left=-level,
                height=0.28,
                color=NULL,
                lw=0,
                zorder=1,
                label=None if place or offset else "95% of random directions",
            )
            style = {"color": _COLORS[direction], "marker": _MARKERS[direction], "ms": 7}
            ax.errorbar(
                [row["estimate"]],
                [y],
                xerr=error_bar(row["estimate"], row["ci"]),
                capsize=3,
                zorder=4,
                lw=1.6,
                label=DIRECTIONS[direction] if not place else None,
                **style,
            )
            ax.annotate(
                row["moved"],
                (1.01, y),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=9,
                color=_COLORS[direction],
            )
    ax.axvline(0, color=MUTED, lw=0.8)
    ax.set_yticks(range(len(names)), [READOUTS[name] for name in names])
    ax.invert_yaxis()
    ax.set_xlabel(f"movement of the log-odds at dose {found['steering']['test_dose']:g}, nats")
    ax.set_title(
        f"probe direction: {table['pattern']}   difference of means: {table['diff_means']['pattern']}"
    )
    figure.legend(loc="outside lower center", ncols=2)
    return figure

"""Cosines of directions between layers and contexts, and transfer between domains, as annotated matrices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.report.controls import Line
from experiments.report.figures import FigurePaths, new_figure
from experiments.report.formatting import auroc, bracket, number
from experiments.report.grid import Grid
from experiments.report.layers import layer_edges, layer_ticks
from experiments.report.style import INK, LOOKS, MUTED, save, styled

DIVERGING = "RdBu_r"
"""Red and blue, white in the middle: told apart by color-blind readers."""

WHERE = {
    "task": "task prompt",
    "self_prediction": "answer slot",
    "quote_last": "end of the quote",
    "other_framing": "slot, about another",
    "input_question": "slot, about the input",
}
"""Context -> its name in a figure."""

_PAIR_LOOKS = (LOOKS["probe"], LOOKS["report_probe"], LOOKS["verbal"])
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
_DETAILED = 7
"""Up to so many domains there is room for the interval and the accuracies in a cell."""
_DETAILED_TITLE = "AUROC [95% interval]\nbalanced accuracy, raw \u2192 mean-shifted"
_PLAIN_TITLE = "AUROC; bold where its 95% interval, by itself, excludes 0.50"


def cosine_figure(cosines: Mapping[str, Any]) -> Figure:
    """Draw the layers' cosines, what permuted labels give there, and the cosines between contexts by layer.

    Args:
        cosines: `cosines` of a task in `directions.json`.

    Raises:
        ValueError: fewer than two layers have a direction.
    """
    if len(cosines["layers"]) < 2:
        raise ValueError("cosines: fewer than two layers have a direction")
    layers = np.asarray(cosines["layers"], dtype=float)
    with styled():
        figure: Figure = new_figure(8.2, 8.2)
        grid = figure.add_gridspec(2, 2, height_ratios=(1.15, 1))
        left, right = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
        mesh = _layer_matrix(left, layers, cosines["values"], "the outcome: cosine")
        _layer_matrix(right, layers, cosines["null"], "permuted outcome: 95% of |cosine|")
        figure.colorbar(mesh, ax=[left, right], label="cosine", shrink=0.9, pad=0.02)
        _context_cosines(figure.add_subplot(grid[1, :]), cosines)
    return figure


def transfer_figure(matrix: Mapping[str, Any]) -> Figure:
    """Draw a transfer matrix: AUROC, its interval, and balanced accuracy raw and mean-shifted.

    Args:
        matrix: `contexts` or `strata` of a task in `directions.json`, or `transfer` across its tasks.

    Raises:
        ValueError: fewer than two domains could be scored.
    """
    names = [WHERE.get(name, name) for name in matrix["names"]]
    n = len(names)
    if n < 2:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in matrix["skipped"].items())
        raise ValueError(f"transfer: fewer than two domains could be scored ({reasons})")
    values = np.array([[e["auroc"] for e in row] for row in matrix["entries"]], dtype=float)
    reach = max(0.3, float(np.nanmax(np.abs(values - 0.5))))
    cell = 1.3 if n <= _DETAILED else 0.62
    with styled():
        figure: Figure = new_figure(2.9 + cell * n, 1.7 + cell * n)
        ax = figure.subplots()
        image = ax.imshow(values, cmap=DIVERGING, vmin=0.5 - reach, vmax=0.5 + reach)
        for (row, column), value in np.ndenumerate(values):
            lightness = image.cmap(image.norm(value))[:3] @ _LUMINANCE
            color = "white" if lightness < 0.5 else INK
            _cell_text(ax, row, column, matrix["entries"][row][column], color, n <= _DETAILED)
        ax.set_title(_DETAILED_TITLE if n <= _DETAILED else _PLAIN_TITLE, fontsize=9.5)
        turned: dict[str, Any] = (
            {} if n <= _DETAILED else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        )
        ax.set_xticks(range(n), labels=names, **turned)
        ax.set_yticks(range(n), labels=names)
        ax.set_xlabel("tested on")
        ax.set_ylabel("trained on")
        ax.tick_params(length=0)
        ax.grid(False)
        ax.spines[:].set_visible(False)
        figure.colorbar(image, ax=ax, label="AUROC", shrink=0.75, pad=0.02)
    return figure


def write_direction_figures(directions: Mapping[str, Any], folder: str | Path) -> FigurePaths:
    """Draw `cosines`, `transfer_contexts`, `transfer_strata` and `transfer_tasks` of every task, where there are any.

    Args:
        directions: as in `directions.json`.
        folder: where `TASK_FIGURE.png` and `TASK_FIGURE.svg` go; it is made.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    across = (directions["across_tasks"] or {}).get("transfer")
    paths: FigurePaths = {}
    for name, found in directions["tasks"].items():
        matrices = {"contexts": found["contexts"], "strata": found["strata"], "tasks": across}
        figures = {
            f"transfer_{over}": transfer_figure(matrix)
            for over, matrix in matrices.items()
            if matrix and len(matrix["names"]) > 1
        }
        if len(found["cosines"]["layers"]) > 1:
            figures["cosines"] = cosine_figure(found["cosines"])
        with styled():
            paths[name] = {
                figure: save(drawn, folder / f"{name}_{figure}")
                for figure, drawn in figures.items()
            }
    return paths


def figure_texts(directions: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """What the figures show, in words: task -> figure -> text."""
    across = directions["across_tasks"] or {}
    texts = {}
    for name, found in directions["tasks"].items():
        matrices = {"contexts": found["contexts"], "strata": found["strata"]}
        if across:
            matrices["tasks"] = across["transfer"]
        texts[name] = {
            "cosines": "Cosines between the probe's directions of all layers and contexts.",
            **{f"transfer_{over}": _matrix_text(matrix) for over, matrix in matrices.items()},
        }
    return texts


def matrix_tables(directions: Mapping[str, Any] | None, task: str) -> list[Grid]:
    """The transfer matrices of a task, a row a place of training, a column a place of testing."""
    found = ((directions or {}).get("tasks") or {}).get(task)
    if directions is None or not found:
        return []
    across = (directions.get("across_tasks") or {}).get("transfer")
    matrices = {"contexts": found["contexts"], "tasks": across, "strata": found["strata"]}
    tables = []
    for over, matrix in matrices.items():
        if matrix and len(matrix["names"]) > 1:
            names = [WHERE.get(name, str(name)) for name in matrix["names"]]
            rows = [
                (name, *(auroc(entry) for entry in row))
                for name, row in zip(names, matrix["entries"], strict=True)
            ]
            title = f"AUROC, moved between {over}: the values"
            tables.append(Grid(title, ("Trained on, tested on", *names), tuple(rows)))
    return tables


def degeneracy_lines(found: Mapping[str, Any] | None) -> list[Line]:
    """The degeneracy test as a line of the table of controls; none for a task that has no directions."""
    if found is None:
        return []
    test = found["degeneracy"]
    n_removed = test["n_removed"]
    reached = (
        f"above chance after {len(test['after']) - 1} removals"
        if n_removed is None
        else f"at chance after {n_removed} removal{'s' if n_removed > 1 else ''}"
    )
    return [
        Line(
            "the probe's direction projected out, fitted anew",
            auroc(test["after"][1]),
            "",
            "procedure",
            "that this direction is the only one that tells",
            f"{reached}; what is left may be what a fit on few items missed of one direction",
        )
    ]


def _matrix_text(matrix: Mapping[str, Any]) -> str:
    cells = [
        f"{WHERE.get(name, name)} to {WHERE.get(e['tested_on'], e['tested_on'])} {number(e['auroc'])}"
        for name, row in zip(matrix["names"], matrix["entries"], strict=True)
        for e in row
    ]
    return "AUROC of a probe, trained on to tested on: " + ", ".join(cells) + "."


def _layer_matrix(ax: Any, layers: NDArray[Any], values: Any, title: str) -> Any:
    edges = layer_edges(layers)
    mesh = ax.pcolormesh(edges, edges, np.asarray(values, float), cmap=DIVERGING, vmin=-1, vmax=1)
    # As an image: a path a cell would make the page heavier than all its other pictures together.
    mesh.set_rasterized(True)
    ax.set_aspect("equal")
    ax.set_xticks(layer_ticks(layers))
    ax.set_yticks(layer_ticks(layers))
    ax.set_xlabel("layer")
    ax.set_ylabel("layer")
    ax.set_title(title)
    ax.grid(False)
    return mesh


def _context_cosines(ax: Any, cosines: Mapping[str, Any]) -> None:
    for look, pair in zip(_PAIR_LOOKS, cosines["contexts"], strict=False):
        one, other = (WHERE.get(name, name) for name in pair["pair"])
        ax.plot(
            pair["layers"], pair["values"], color=look.color, ls=look.line, label=f"{one}, {other}"
        )
        ax.plot(pair["layers"], pair["null"], color=look.color, lw=0.9, ls=(0, (1, 1.5)))
    ax.plot([], [], color=MUTED, lw=0.9, ls=(0, (1, 1.5)), label="95% of |cosine|, labels permuted")
    layers = np.asarray(cosines["layers"], dtype=float)
    ax.plot(layers[[0, -1]], [0, 0], color=MUTED, lw=0.8)
    ax.set_xticks(layer_ticks(layers))
    ax.set_xlabel("layer")
    ax.set_ylabel("cosine of two contexts")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


def _cell_text(
    ax: Any, row: int, column: int, entry: Mapping[str, Any], color: str, detailed: bool
) -> None:
    style = {"ha": "center", "va": "center", "color": color}
    if not detailed:
        low, high = entry["ci"]
        is_clear = low is not None and high is not None and (low > 0.5 or high < 0.5)
        weight = "bold" if is_clear else "normal"
        ax.text(column, row, number(entry["auroc"]), fontsize=9, fontweight=weight, **style)
        return
    accuracies = f"{number(entry['balanced_accuracy'])} \u2192 {number(entry['shifted_accuracy'])}"
    ax.text(column, row - 0.22, number(entry["auroc"]), fontsize=13, **style)
    ax.text(column, row + 0.04, bracket(entry["ci"]), fontsize=8.5, **style)
    ax.text(column, row + 0.28, accuracies, fontsize=9, **style)

"""A probe of a user's own labels in a cache: nested selection over all cells, with its interval and its null.

What this does not show: that the label is decodable beyond what the text says (no text is in a cache), or that the
model uses what the probe reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from activations_cache import ActivationsCache, Cell
from experiments.label_files import Labels
from experiments.predictors import Grid
from experiments.probe_files import SavedProbe
from experiments.progress import Reporter, Silent
from experiments.records import json_number, write_json, write_text
from experiments.report import write_layer_curves
from experiments.task_data import cell_name
from probes import (
    Candidate,
    Interval,
    MaxStatistic,
    RidgeProbe,
    auroc_interval,
    max_statistic_test,
    nested_ridge,
)


@dataclass(frozen=True)
class LabeledProbe:
    """The probe, its result as `results.json` holds it, and a row for it and for every cell."""

    result: dict[str, Any]
    table: pd.DataFrame
    probe: SavedProbe

    def write(self, folder: Path) -> None:
        """Write `results.json`, `results.csv`, `probe.safetensors` and `.json`, and a layer curve a site."""
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "results.csv", self.table.to_csv(index=False))
        self.probe.write(folder / "probe", {"model": self.result["model"]})
        for site, curves in self.result["curves"].items():
            chosen = self.result["probe"]["site"] == site
            row = self.result["probe"] if chosen else {"site": site}
            write_layer_curves({"curves": curves, "probe": row}, folder / f"layers_{site}")
        write_json(folder / "results.json", self.result)


def probe_labels(
    cache: ActivationsCache,
    labels: Labels,
    *,
    n_folds: int = 5,
    n_regroupings: int = 5,
    n_permutations: int = 199,
    seed: int = 0,
    reporter: Reporter | None = None,
) -> LabeledProbe:
    """Fit ridges to labels at every cell of a cache; cell and penalty are selected on inner folds.

    All cells are held in memory at once, as float32.

    Raises:
        ValueError: a cache without any whole cell, a feature that is nan or inf (cell and item named), and what
            `nested_ridge` and `max_statistic_test` refuse.
    """
    cells = tuple(cache.cells())
    if not cells:
        raise ValueError(f"cache: {cache.path} holds no cell of all items; finish the capture")
    reporter = reporter or Silent()
    with reporter.stage("read", len(cells)) as advance:
        candidates = []
        for cell in cells:
            candidates.append(Candidate(cell_name(cell), (_features(cache, cell, labels.ids),)))
            advance(1)
    with reporter.stage("probe", len(cells)) as advance:
        nested = nested_ridge(
            candidates,
            labels.y,
            labels.groups,
            n_folds=n_folds,
            n_regroupings=n_regroupings,
            seed=seed,
            progress=lambda done, total: advance(1),
        )
    grid = Grid(cells, nested)
    with reporter.stage("permutations", len(cells)) as advance:
        null = max_statistic_test(
            candidates,
            labels.y,
            labels.groups,
            nested.folds[0],
            n_permutations=n_permutations,
            seed=seed,
            progress=lambda done, total: advance(1),
        )
    interval = auroc_interval(
        labels.y, nested.scores, nested.folds, labels.groups, estimand="procedure"
    )
    cell, alpha = grid.chosen
    fitted = RidgeProbe(alpha=alpha).fit(cache_column(cache, cell, labels.ids), labels.y)
    about = {"labels": len(labels.ids), "outcome_1": "label 1"}
    result = {
        "model": dict(cache.fingerprint),
        "n_items": len(labels.ids),
        "n_groups": len(set(labels.groups)),
        "base_rate": json_number(labels.y.mean()),
        "unlabeled": list(labels.unlabeled),
        "folds": n_folds,
        "regroupings": n_regroupings,
        "seed": seed,
        "probe": {
            "auroc": json_number(interval.estimate),
            "ci": [json_number(interval.low), json_number(interval.high)],
            "estimand": "procedure",
            "approximate": interval.approximate,
            **dict(zip(("site", "layer", "position"), cell, strict=True)),
            "alpha": alpha,
            "p_max": null.p_value,
            "n_permutations": n_permutations,
        },
        "curves": _curves(grid, null),
    }
    return LabeledProbe(
        result, _table(grid, null, interval, result), SavedProbe(fitted, cell, about)
    )


def cache_column(cache: ActivationsCache, cell: Cell, ids: Sequence[str]) -> np.ndarray:
    """Activations `[item, d_model]` of one cell."""
    site, layer, position = cell
    return cache.read(site, layer=layer, position=position, ids=ids)


def _features(cache: ActivationsCache, cell: Cell, ids: Sequence[str]) -> np.ndarray:
    column = cache_column(cache, cell, ids)
    broken = ~np.isfinite(column).all(axis=1)
    if broken.any():
        raise ValueError(
            f"cache: {cell_name(cell)} of item {ids[int(broken.argmax())]!r} holds nan or inf; capture it again"
        )
    return column


def _curves(grid: Grid, null: MaxStatistic) -> dict[str, Any]:
    """A site with layers -> its curves, as `plot_layers` takes them; the band is that of the best position."""
    curve, band = np.round(grid.nested.curve, 6), np.round(null.band(), 6)
    top = json_number(np.quantile(np.nanmax(null.null, axis=(1, 2)), 0.95))
    curves: dict[str, Any] = {}
    for site in dict.fromkeys(site for site, layer, _ in grid.cells if layer is not None):
        at: dict[str, list[int]] = {}
        for index, cell in enumerate(grid.cells):
            if cell[0] == site:
                at.setdefault(cell[2], []).append(index)
        chosen_site, _, chosen_position = grid.chosen[0]
        shown = max(at, key=lambda position: curve[at[position]].max())
        if chosen_site == site:
            shown = chosen_position
        curves[site] = {
            "layers": [grid.cells[index][1] for index in at[shown]],
            "task": {position: curve[rows].tolist() for position, rows in at.items()},
            "null_band": band[at[shown]].tolist(),
            "null_band_position": shown,
            "null_max": top,
        }
    return curves


def _table(
    grid: Grid, null: MaxStatistic, interval: Interval, result: Mapping[str, Any]
) -> pd.DataFrame:
    shared = {"n_items": result["n_items"], "n_groups": result["n_groups"]}
    selected = {
        "kind": "selected",
        "auroc": json_number(interval.estimate),
        "ci_low": json_number(interval.low),
        "ci_high": json_number(interval.high),
        "p_max": null.p_value,
    }
    rows = [
        shared | selected | {name: result["probe"][name] for name in ("site", "layer", "position")}
    ]
    for (site, layer, position), auroc, (low, high) in zip(
        grid.cells, grid.nested.curve, null.band(), strict=True
    ):
        rows.append(
            shared
            | {"kind": "cell", "site": site, "layer": layer, "position": position}
            | {
                "auroc": json_number(auroc),
                "null_low": json_number(low),
                "null_high": json_number(high),
            }
        )
    columns = ["kind", "site", "layer", "position", "auroc", "ci_low", "ci_high", "p_max"]
    return pd.DataFrame(
        rows, columns=[*columns, "null_low", "null_high", "n_items", "n_groups"]
    ).astype({"layer": "Int64"})

"""A probe of a user's own labels in a cache: nested selection over all cells, with its interval and its null.

What this does not show: that the model uses what the probe reads; and, where no texts are given, that the label is
decodable beyond what the text says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from activations_cache import ActivationsCache, Cell
from experiments.labeled.binary import measure_binary
from experiments.labeled.classes import measure_classes
from experiments.labeled.fitted import fit_probe
from experiments.labeled.labels import Kind, Labels
from experiments.labeled.measured import Measured, ProbeSettings
from experiments.labeled.rate import measure_rate
from experiments.labeled.states import States
from experiments.probe_files import SavedProbe
from experiments.progress import Reporter, Silent
from experiments.records import json_number
from probes import SampleEfficiency

PROBES: dict[Kind, str] = {"classes": "multinomial"}
"""What is fitted to a kind of label that leaves no choice."""

SCHEMA = 1
"""Of `results.json`; raised when a field changes its meaning."""

Measure = Callable[[States, Labels, ProbeSettings, Sequence[str] | None, Reporter], Measured]
MEASURES: dict[Kind, Measure] = {
    "binary": measure_binary,
    "rate": measure_rate,
    "classes": measure_classes,
}


def check_kind(kind: Kind, settings: ProbeSettings) -> None:
    """Raise ValueError for a probe that does not go with the kind of labels."""
    if kind != "binary" and settings.probe != "ridge":
        raise ValueError(
            f"probe: {settings.probe!r} is for labels of 0 and 1; leave --probe out with --kind {kind}"
        )


@dataclass(frozen=True)
class LabeledProbe:
    """The probe, its result as `results.json` holds it, a row for it and for every cell, and a row an item."""

    result: dict[str, Any]
    table: pd.DataFrame
    scores: pd.DataFrame
    probe: SavedProbe


def probe_labels(
    cache: ActivationsCache,
    labels: Labels,
    settings: ProbeSettings | None = None,
    *,
    texts: Sequence[str] | None = None,
    reporter: Reporter | None = None,
) -> LabeledProbe:
    """Fit probes to labels at every cell of a cache; cell and penalty are selected on inner folds.

    Cells are read one at a time and as often as they are needed: memory does not grow with their number.

    Args:
        cache: holds the labeled items.
        labels: as `read_labels` gives them.
        settings: how probes are fitted.
        texts: what a person would read of every labeled item, in the order of `labels.ids`. Without them there is no
            text baseline.
        reporter: shows progress.

    Raises:
        ValueError: a cache without any whole cell, a feature that is nan or inf (cell and item named), a probe that
            does not go with the kind of labels.
    """
    settings = settings or ProbeSettings()
    check_kind(labels.kind, settings)
    states = States(cache, labels.ids)
    measured = MEASURES[labels.kind](states, labels, settings, texts, reporter or Silent())
    index, penalty = measured.chosen
    cell = states.cells[index]
    result = {
        "schema": SCHEMA,
        "model": dict(cache.fingerprint),
        "kind": labels.kind,
        "metric": measured.metric,
        "n_items": len(labels.ids),
        "n_groups": len(set(labels.groups)),
        **_describe(labels),
        "unlabeled": list(labels.unlabeled),
        "folds": settings.folds,
        "regroupings": settings.regroupings,
        "seed": settings.seed,
        "probe": {
            "kind": PROBES.get(labels.kind, settings.probe),
            **measured.score,
            **_cell(settings, labels.kind, (cell, penalty)),
            "p_max": measured.null.p_value,
            "n_permutations": len(measured.null.null),
        },
        "baselines": measured.baselines,
        "controls": measured.controls,
        "gap": measured.gap,
        "sample_efficiency": None
        if measured.efficiency is None
        else _efficiency(measured.efficiency),
        "curves": _curves(states, measured),
    }
    about = {"labels": len(labels.ids), "predicts": _predicts(labels)}
    fitted = fit_probe(labels, settings, penalty, states.read(cell))
    return LabeledProbe(
        result,
        _table(states, measured, result),
        pd.DataFrame(
            {"item": labels.ids, "group": labels.groups, "label": labels.y, **measured.items}
        ),
        SavedProbe(fitted, cell, about),
    )


def _describe(labels: Labels) -> dict[str, Any]:
    if labels.kind == "classes":
        names, counts = np.unique(labels.y, return_counts=True)
        return {"classes": dict(zip(names.tolist(), counts.tolist(), strict=True))}
    mean = {"base_rate" if labels.kind == "binary" else "mean": json_number(labels.y.mean())}
    return mean if labels.kind == "binary" else mean | {"spread": json_number(labels.y.std())}


def _predicts(labels: Labels) -> str:
    return {"binary": "label 1", "rate": "the label", "classes": "the label's class"}[labels.kind]


def _cell(settings: ProbeSettings, kind: Kind, chosen: tuple[Cell, float]) -> dict[str, Any]:
    """The cell, and the penalty under the name that its probe gives it; None for a probe without one."""
    (site, layer, position), penalty = chosen
    probe = PROBES.get(kind, settings.probe)
    name = {"logistic": "C", "multinomial": "C", "lda": "shrinkage"}.get(probe, "alpha")
    return {"site": site, "layer": layer, "position": position, name: json_number(penalty)}


def _efficiency(found: SampleEfficiency) -> dict[str, Any]:
    return {
        "groups": list(found.sizes),
        "items": [json_number(n) for n in found.n_items],
        "auroc": [json_number(i.estimate) for i in found.intervals],
        "ci": [[json_number(i.low), json_number(i.high)] for i in found.intervals],
        "draws": np.round(found.auroc, 6).tolist(),
        "one_class": [json_number(share) for share in found.one_class],
        "selection": "cell and penalty chosen on all training folds, never on the test fold",
    }


def _curves(states: States, measured: Measured) -> dict[str, Any]:
    """A site -> its curves, as `plot_layers` takes them; the band is that of the position shown."""
    curve, band = np.round(measured.curve, 6), np.round(measured.null.band(), 6)
    top = json_number(np.quantile(np.nanmax(measured.null.null, axis=(1, 2)), 0.95))
    chosen_site, _, chosen_position = states.cells[measured.chosen[0]]
    curves: dict[str, Any] = {}
    for site in dict.fromkeys(site for site, layer, _ in states.cells if layer is not None):
        at: dict[str, list[int]] = {}
        for index, cell in enumerate(states.cells):
            if cell[0] == site:
                at.setdefault(cell[2], []).append(index)
        shown = max(at, key=lambda position: curve[at[position]].max())
        if chosen_site == site:
            shown = chosen_position
        curves[site] = {
            "layers": [states.cells[index][1] for index in at[shown]],
            "task": {position: curve[rows].tolist() for position, rows in at.items()},
            "null_band": band[at[shown]].tolist(),
            "null_band_position": shown,
            "null_max": top,
        }
    return curves


COLUMNS = [
    "kind",
    "name",
    "site",
    "layer",
    "position",
    "metric",
    "score",
    "ci_low",
    "ci_high",
    "p_max",
    "null_low",
    "null_high",
    "n_items",
    "n_groups",
]
"""Of `results.csv`: the selected probe, baselines and controls, then every cell (which is no result by itself)."""


def _table(states: States, measured: Measured, result: dict[str, Any]) -> pd.DataFrame:
    shared = {"metric": measured.metric} | {key: result[key] for key in ("n_items", "n_groups")}

    def scored(kind: str, name: str, row: Any) -> dict[str, Any]:
        low, high = row["ci"] or (None, None)
        numbers = {"score": row[measured.metric], "ci_low": low, "ci_high": high}
        where = {key: row.get(key) for key in ("site", "layer", "position", "p_max")}
        return shared | {"kind": kind, "name": name} | numbers | where

    rows = [scored("selected", "probe", result["probe"])]
    rows += [scored("baseline", name, row) for name, row in (measured.baselines or {}).items()]
    rows += [scored("control", name, row) for name, row in measured.controls.items()]
    for (site, layer, position), score, (low, high) in zip(
        states.cells, measured.curve, measured.null.band(), strict=True
    ):
        where = {"kind": "cell", "site": site, "layer": layer, "position": position}
        numbers = {"score": score, "null_low": low, "null_high": high}
        rows.append(shared | where | {key: json_number(value) for key, value in numbers.items()})
    return pd.DataFrame(rows, columns=COLUMNS).astype({"layer": "Int64"})

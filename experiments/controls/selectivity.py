"""Selectivity of the probe at its chosen cell: true labels against labels drawn at random per surface type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.baselines import opening_words
from experiments.predictors import Predictions
from experiments.records import json_number
from experiments.result_json import cell_json
from experiments.task_data import TaskData
from probes import Selectivity, selectivity, selectivity_reason

N_DRAWS = 20
_IN_TABLE = ("site", "layer", "position", "estimand", "n_items")


def selectivity_results(data: TaskData, predictions: Predictions, seed: int) -> dict[str, Any]:
    """Surface type -> its result, or None scores with the reason where too few types straddle the folds."""
    entity = data.meta("entity")
    types = {
        "entity": entity,
        "opening_words": np.array(opening_words(data.texts)),
    }
    return {name: _result(data, predictions, of, seed) for name, of in types.items()}


def _result(
    data: TaskData, predictions: Predictions, types: np.ndarray | None, seed: int
) -> dict[str, Any]:
    reason = "the items name no such type"
    if types is not None:
        reason = selectivity_reason(data.outcome, types, predictions.folds) or ""
    if types is None or reason:
        return {
            "kind": "control",
            "true": None,
            "control": None,
            "difference": None,
            "reason": reason,
        }
    cell, alpha = predictions.probe.chosen

    def at(layer: int | None, folds: np.ndarray) -> Selectivity:
        features = data.task_features((cell[0], layer, cell[2]))
        return selectivity(
            features, data.outcome, types, data.groups, folds,
            alpha=alpha, n_draws=N_DRAWS, seed=seed,
        )  # fmt: skip

    chosen = at(cell[1], predictions.folds)
    layers = [
        layer for site, layer, position in data.cells if (site, position) == (cell[0], cell[2])
    ]
    curve = [at(layer, predictions.folds[:1]) for layer in layers]
    low, high = np.quantile(chosen.control, (0.025, 0.975))
    return {
        "kind": "control",
        "true": json_number(chosen.true.estimate),
        "true_ci": [json_number(chosen.true.low), json_number(chosen.true.high)],
        "control": json_number(chosen.control.mean()),
        "control_range": [json_number(low), json_number(high)],
        "difference": json_number(chosen.difference),
        "estimand": "procedure",
        "n_draws": N_DRAWS,
        "n_types": chosen.n_types,
        "n_items": chosen.n_items,
        **cell_json((cell, alpha)),
        "curve": {
            "layers": layers,
            "true": [json_number(one.true.estimate) for one in curve],
            "control": [json_number(one.control.mean()) for one in curve],
        },
    }


def selectivity_table(results: Mapping[str, Any], n_groups: int) -> list[dict[str, Any]]:
    """Two rows of `results.csv` a surface type: true labels and control labels on the same folds."""
    rows = []
    for name, result in results.items():
        for labels, ci in (("true", "true_ci"), ("control", "control_range")):
            low, high = result.get(ci) or (None, None)
            rows.append(
                {
                    "kind": "control",
                    "predictor": f"selectivity_{name}_{labels}",
                    "auroc": result[labels],
                    "ci_low": low,
                    "ci_high": high,
                    **{key: result[key] for key in _IN_TABLE if key in result},
                    "n_groups": n_groups,
                }
            )
    return rows

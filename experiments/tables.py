"""The tables of a run: every predictor and cell, and every item's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.predictors import Predictions
from experiments.records import json_number
from experiments.scored import Scored
from experiments.task_data import TaskData, WordData
from probes import Interval, platt, within_fold_zscores

TABLE_COLUMNS = [
    "task",
    "kind",
    "predictor",
    "site",
    "layer",
    "position",
    "auroc",
    "ci_low",
    "ci_high",
    "estimand",
    "n_items",
    "n_groups",
]
"""Of `results.csv`: a row a predictor (`kind` "predictor"), a control ("control"), a number of the output side
("output"), words or a probe of another context ("context"), a reader beside the probe ("peer"), a cell of a probe grid
("cell"). One without `auroc` was not scored."""

SCORE_COLUMNS = [
    "task",
    "item",
    "group",
    "stratum",
    "text",
    "completion",
    "outcome",
    "fold",
    "probe",
    "report_probe",
    "verbal",
    "baseline_text",
    "probe_probability",
    "verbal_probability",
    "verbal_answer",
]
"""Of `scores.csv`: a row an item; scores are those of the first regrouping, z-scored within folds."""


def predictor_table(
    data: TaskData,
    predictions: Predictions,
    intervals: Mapping[str, Interval],
    controls: Sequence[Mapping[str, Any]],
) -> pd.DataFrame:
    """`results.csv`: every predictor with its interval, every control, the curve of every cell of the probe grids."""
    shared = _shared(data)
    rows = predictor_rows(data, predictions.rows(), intervals)
    rows += [{**shared, **control} for control in controls]
    for predictor, grid in (("probe", predictions.probe), ("report_probe", predictions.report)):
        for (site, layer, position), auroc in zip(grid.cells, grid.nested.curve, strict=True):
            rows.append(
                shared
                | {
                    "kind": "cell",
                    "predictor": predictor,
                    "auroc": json_number(auroc),
                    "site": site,
                    "layer": layer,
                    "position": position,
                }
            )
    return pd.DataFrame(rows, columns=TABLE_COLUMNS)


def predictor_rows(
    data: WordData, rows: Mapping[str, Scored], intervals: Mapping[str, Interval]
) -> list[dict[str, Any]]:
    """The rows of `results.csv` for predictors of all items."""
    return [
        _shared(data)
        | {
            "kind": "predictor",
            "predictor": name,
            "auroc": json_number(intervals[name].estimate),
            "ci_low": json_number(intervals[name].low),
            "ci_high": json_number(intervals[name].high),
            "estimand": row.estimand,
        }
        for name, row in rows.items()
    ]


def _shared(data: WordData) -> dict[str, Any]:
    return {
        "task": data.task.name,
        "n_items": len(data.items),
        "n_groups": len(set(data.groups)),
    }


def item_cells(data: WordData) -> dict[str, Any]:
    """The first columns of `scores.csv`; an outcome that is read off without a completion has an empty one."""
    return {
        "task": data.task.name,
        "item": data.ids,
        "group": data.groups,
        "stratum": [item.stratum for item in data.items],
        "text": [item.text for item in data.items],
        "completion": [next(iter(row.completions), "") for row in data.behavior],
        "outcome": data.outcome,
    }


def score_table(data: TaskData, predictions: Predictions) -> pd.DataFrame:
    """`scores.csv`, item by item: what the pictures and a sceptical reader need."""
    folds = predictions.folds[0]
    probe, verbal = predictions.probe.nested.scores[0], predictions.verbal.scores[0]

    def standard(scores: np.ndarray) -> np.ndarray:
        return within_fold_zscores(scores, folds).round(6)

    return pd.DataFrame(
        {
            **item_cells(data),
            "fold": folds,
            "probe": standard(probe),
            "report_probe": standard(predictions.report.nested.scores[0]),
            "verbal": standard(verbal),
            "baseline_text": standard(predictions.text.scores[0]),
            "probe_probability": platt(data.outcome, probe, folds).round(6),
            "verbal_probability": platt(data.outcome, verbal, folds).round(6),
            "verbal_answer": data.parsed,
        },
        columns=SCORE_COLUMNS,
    )

"""The same predictors on other splits of the items: whole kinds held out, and within every stratum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.predictors import Predictions
from experiments.records import json_number
from experiments.result_json import interval_json
from experiments.scored import Scored
from experiments.task_data import TaskData, WordData
from probes import same_fold_auroc, skip_reason


def second_grouping(data: TaskData, n_folds: int) -> np.ndarray | None:
    """The kinds of entity, where the items have enough of them for folds of their own."""
    kinds = data.meta("entity")
    if kinds is None or skip_reason(data.outcome, kinds, n_folds) is not None:
        return None
    return kinds


def second_split(data: TaskData, predictions: Predictions) -> dict[str, Any]:
    """Probe, text and words with whole kinds of entity held out."""
    rows = predictions.rows()

    def held_out(name: str) -> dict[str, Any]:
        row = rows[name]
        interval = row.interval(data.outcome, predictions.folds, predictions.groups)
        return interval_json(interval, row.estimand)

    return {
        "name": "whole kinds of entity held out; groups may straddle",
        "n_groups": len(set(predictions.groups)),
        **{name: held_out(name) for name in ("probe", "text", "verbal")},
    }


def strata_results(
    data: WordData, rows: Mapping[str, Scored], folds: np.ndarray
) -> list[dict[str, Any]]:
    """Probe, text and words within every stratum; None for what there is none of."""
    strata = np.array([item.stratum for item in data.items])

    def within(name: str, members: np.ndarray) -> float | None:
        if name not in rows:
            return None
        scores = rows[name].scores[:, members]
        labels = data.outcome[members]
        values = [
            same_fold_auroc(labels, s, f) for s, f in zip(scores, folds[:, members], strict=True)
        ]
        return json_number(np.mean(values))

    result = []
    for stratum in dict.fromkeys(strata):
        members = strata == stratum
        result.append(
            {
                "stratum": str(stratum),
                "n": int(members.sum()),
                "n_groups": len(set(data.groups[members])),
                "base_rate": json_number(data.outcome[members].mean()),
                **{name: within(name, members) for name in ("probe", "text", "verbal")},
            }
        )
    return result

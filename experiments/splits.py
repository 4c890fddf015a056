"""The same predictors on other splits of the items: whole kinds held out, and within every stratum."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.predictors import Predictions
from experiments.records import json_number
from experiments.result_json import interval_json
from experiments.task_data import TaskData
from probes import Interval, auroc_interval, same_fold_auroc, skip_reason


def predictor_interval(data: TaskData, predictions: Predictions, name: str) -> Interval:
    """The AUROC of a predictor by its name in the results, with its interval."""
    scores, estimand = predictions.rows()[name]
    return auroc_interval(
        data.outcome, scores, predictions.folds, predictions.groups, estimand=estimand
    )


def second_grouping(data: TaskData, n_folds: int) -> np.ndarray | None:
    """The kinds of entity, where the items have enough of them for folds of their own."""
    kinds = data.meta("entity")
    if kinds is None or skip_reason(data.outcome, kinds, n_folds) is not None:
        return None
    return kinds


def second_split(data: TaskData, predictions: Predictions) -> dict[str, Any]:
    """Probe, text and words with whole kinds of entity held out."""
    rows = predictions.rows()
    named = {
        name: predictor_interval(data, predictions, name) for name in ("probe", "text", "verbal")
    }
    return {
        "name": "whole kinds of entity held out; groups may straddle",
        "n_groups": len(set(predictions.groups)),
        **{name: interval_json(interval, rows[name][1]) for name, interval in named.items()},
    }


def strata_results(data: TaskData, predictions: Predictions) -> list[dict[str, Any]]:
    """Probe, text and words within every stratum."""
    strata = np.array([item.stratum for item in data.items])
    rows = predictions.rows()

    def within(name: str, members: np.ndarray) -> float | None:
        scores = rows[name][0][:, members]
        folds = predictions.folds[:, members]
        labels = data.outcome[members]
        values = [same_fold_auroc(labels, s, f) for s, f in zip(scores, folds, strict=True)]
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

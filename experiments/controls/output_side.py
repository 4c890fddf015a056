"""The output side as rows: each number of the first answer token's distribution, and a ridge over all of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from experiments.controls.rows import ControlRow, Scoring
from experiments.predictors import Fitting
from experiments.scored import Scored
from experiments.task_data import TaskData
from hooks import NextToken
from probes import Candidate

_RULES_OUT = "the model's own odds for its first token"


def output_rows(
    data: TaskData, output_side: Mapping[str, NextToken], fitting: Fitting, scoring: Scoring
) -> list[ControlRow]:
    """Score the numbers as they are, certainty predicting outcome 1, and a nested ridge over them."""
    tokens = [output_side[item] for item in data.ids]
    numbers = {
        "max_probability": np.array([one.max_probability for one in tokens]),
        "negative_entropy": np.array([-one.entropy for one in tokens]),
        "top2_margin": np.array([one.top2_margin for one in tokens]),
    }
    odds = [one.opening_log_odds for one in tokens]
    has_openings = None not in odds
    if has_openings:
        numbers["opening_log_odds"] = np.array(odds, dtype=np.float64)
    rows = [
        scoring.row(name, "output", Scored.fixed(values), _RULES_OUT)
        for name, values in numbers.items()
    ]
    if not has_openings:
        reason = "this task's outcomes have no openings of their own"
        rows.append(scoring.without("opening_log_odds", "output", _RULES_OUT, reason))
    features = np.stack(list(numbers.values()), axis=1)
    nested = fitting.nested([Candidate("output side", (features,))], data, data.groups)
    rows.append(scoring.row("output_side", "output", Scored.of(nested), _RULES_OUT))
    rows.append(
        scoring.without(
            "sample_agreement",
            "output",
            "how sure the model is of its answer",
            "the labels are made of the same samples",
        )
    )
    return rows

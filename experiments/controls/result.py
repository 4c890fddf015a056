"""All controls of one task, on the items, folds and pairs of its probe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments.controls.contexts import context_rows
from experiments.controls.disagreement import NEUTRAL, peer_results
from experiments.controls.fitted import fitted_controls
from experiments.controls.output_side import output_rows
from experiments.controls.records import ControlRecords
from experiments.controls.rows import ControlRow, Scoring
from experiments.controls.selectivity import selectivity_results, selectivity_table
from experiments.predictors import Fitting, Predictions
from experiments.progress import Advance
from experiments.task_data import TaskData
from probes import text_bins

N_BINS = 5
"""Of the text's score within a fold."""
N_STEPS = 5
"""Steps that `control_results` reports."""


@dataclass(frozen=True)
class Controls:
    """What `results.json` holds under `controls`, `output_side`, `contexts` and `peer`, and rows of `results.csv`."""

    result: dict[str, Any]
    table: list[dict[str, Any]]


def control_results(
    data: TaskData,
    predictions: Predictions,
    records: ControlRecords,
    fitting: Fitting,
    advance: Advance,
) -> Controls:
    """Score every control beside the probe of the task context; calls `advance(1)` after each of `N_STEPS`."""
    rows = predictions.rows()
    scoring = Scoring(data.outcome, data.groups, predictions.folds, rows["probe"])
    selective = selectivity_results(data, predictions, fitting.seed)
    advance(1)
    fitted = list(fitted_controls(data, records, fitting, scoring))
    within = _within_text_bins(predictions, scoring)
    advance(1)
    output = output_rows(data, records.output_side, fitting, scoring)
    advance(1)
    contexts = context_rows(data, rows["verbal"], fitting, scoring)
    advance(1)
    peer, peer_rows = None, list[ControlRow]()
    if records.peer is not None:
        peer, peer_rows = peer_results(
            data, records.peer, rows[NEUTRAL], rows["verbal"], fitting, scoring
        )
    advance(1)
    return Controls(
        result={
            "controls": {
                "selectivity": selective,
                **{row.name: row.to_json() for row in fitted},
                "within_text_bins": {
                    "n_bins": N_BINS,
                    **{name: row.to_json() for name, row in within.items()},
                },
            },
            "output_side": {row.name: row.to_json() for row in output},
            "contexts": {
                name: {which: row.to_json() for which, row in own.items()}
                for name, own in contexts.items()
            },
            "peer": peer,
        },
        table=[
            *selectivity_table(selective, len(set(data.groups))),
            *(
                row.to_table()
                for row in (
                    *(*fitted, *within.values(), *output),
                    *(row for own in contexts.values() for row in own.values()),
                    *peer_rows,
                )
            ),
        ],
    )


def _within_text_bins(predictions: Predictions, scoring: Scoring) -> dict[str, ControlRow]:
    """What is left of a predictor between items of which the text says about the same."""
    rows = predictions.rows()
    bins = scoring.within(text_bins(predictions.text.scores, predictions.folds, N_BINS))
    rules_out = "what the text says: only pairs of about the same text score count"
    return {
        name: bins.row(f"{name}_within_text_bins", "control", scored, rules_out)
        for name, scored in (
            ("probe", bins.probe),
            *((name, rows[name].without_training()) for name in ("verbal", "text")),
        )
    }

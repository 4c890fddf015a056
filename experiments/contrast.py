"""The probe against the words against the text: everything that `results.json` says of one task.

What this does not show: that the model uses what the probe reads (that takes interventions), or that another reader
of the same text could not read it (that takes another model).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.breakdown import diagnose
from experiments.config import RunConfig
from experiments.controls import N_STEPS as N_CONTROL_STEPS
from experiments.controls import ControlRecords, control_results
from experiments.overview import overview_of, why_not_scored
from experiments.predictors import N_STEPS, Fitting, Predictions
from experiments.probe_files import SavedProbe, refit
from experiments.progress import Reporter
from experiments.records import json_number
from experiments.result_json import cell_json, gap_json, interval_json
from experiments.splits import second_grouping, second_split, strata_results
from experiments.tables import SCORE_COLUMNS, TABLE_COLUMNS, predictor_table, score_table
from experiments.task_data import TaskData
from experiments.words import words_result
from probes import (
    Interval,
    MaxStatistic,
    PermutedUnit,
    max_statistic_test,
    stacked_gain,
)


@dataclass(frozen=True)
class Contrast:
    """One task's part of results.json, results.csv, scores.csv and probes/."""

    task: str
    result: dict[str, Any]
    table: pd.DataFrame
    scores: pd.DataFrame
    probes: dict[str, SavedProbe] = field(default_factory=dict)

    def save_probes(self, folder: Path, fingerprint: Mapping[str, Any]) -> None:
        """Write the probes, each with what it predicts and the fingerprint of the model that it reads."""
        for name, probe in self.probes.items():
            about = {"task": self.task, "outcome_1": self.result["behavior"], "model": fingerprint}
            probe.write(folder / f"{self.task}-{name}", about)


def contrast(
    data: TaskData, records: ControlRecords, config: RunConfig, reporter: Reporter
) -> Contrast:
    """Score every predictor of one task and hold them against each other.

    A task whose labels cannot be scored (one class empty or too thin, fewer groups than folds) is skipped with that
    reason, and the run goes on.
    """
    overview = overview_of(data)
    reason = why_not_scored(data, config.folds)
    if reason is not None:
        skipped = overview | {"skipped": reason}
        return Contrast(
            data.task.name,
            skipped,
            pd.DataFrame(columns=TABLE_COLUMNS),
            pd.DataFrame(columns=SCORE_COLUMNS),
        )

    fitting = Fitting(config.folds, config.regroupings, config.seed)
    second = second_grouping(data, config.folds)
    total = (N_STEPS + 3 + N_CONTROL_STEPS) + (N_STEPS if second is not None else 0)
    with reporter.stage(f"{data.task.name}: probes and baselines", total) as advance:
        predictions = fitting.predict(data, data.groups, advance)
        null = _permutation_test(data, config, predictions, "whole_group")
        advance(1)
        within = _permutation_test(data, config, predictions, "within_group")
        advance(1)
        quote_curve = fitting.curve(data, data.groups, "quote_last")
        advance(1)
        controls = control_results(data, predictions, records, fitting, advance)
        other_split = fitting.predict(data, second, advance) if second is not None else None

    rows = predictions.rows()
    breakdown = diagnose(
        data.outcome,
        data.groups,
        rows["probe"].scores,
        rows["text"].scores,
        rows["report_probe"].scores,
        rows["transferred_probe"].scores,
        rows["verbal"].scores,
        data.parsed,
        folds=predictions.folds,
        training_scores=predictions.training,
        seed=config.seed,
    )
    intervals = {
        name: row.interval(data.outcome, predictions.folds, predictions.groups)
        for name, row in rows.items()
    }
    result = overview | {
        "skipped": None,
        "probe": interval_json(intervals["probe"], "procedure")
        | cell_json(predictions.probe.chosen)
        | {
            "selected": [[cell_json(one) for one in row] for row in predictions.probe.selected],
            "p_max": null.p_value,
            "p_max_within_groups": within.p_value,
            "n_permutations": config.permutations,
        },
        "report_probe": interval_json(intervals["report_probe"], "procedure")
        | cell_json(predictions.report.chosen),
        "transferred_probe": interval_json(intervals["transferred_probe"], "procedure"),
        "verbal": interval_json(intervals["verbal"], "fixed")
        | words_result(data, predictions.folds),
        "supervised_words": interval_json(intervals["supervised_words"], "procedure"),
        "baselines": {
            name: interval_json(intervals[name], "procedure")
            for name in ("text", *predictions.baselines)
        },
        **controls.result,
        "gap": _gaps(data, predictions),
        "second_split": None if other_split is None else second_split(data, other_split),
        "strata": strata_results(data, rows, predictions.folds),
        "breakdown": breakdown.to_json(),
        "curves": _curves(data, predictions, null, quote_curve, intervals),
    }
    return Contrast(
        data.task.name,
        result,
        predictor_table(data, predictions, intervals, controls.table),
        score_table(data, predictions),
        refit(data, predictions),
    )


def _permutation_test(
    data: TaskData, config: RunConfig, predictions: Predictions, unit: PermutedUnit
) -> MaxStatistic:
    return max_statistic_test(
        data.task_candidates,
        data.outcome,
        data.groups,
        predictions.folds[0],
        n_permutations=config.permutations,
        unit=unit,
        seed=config.seed,
    )


def _gaps(data: TaskData, predictions: Predictions) -> dict[str, Any]:
    rows = predictions.rows()

    def difference(first: str, second: str) -> dict[str, Any]:
        return gap_json(
            rows[first].minus(rows[second], data.outcome, predictions.folds, predictions.groups)
        )

    text, probe = rows["text"], rows["probe"]
    return {
        "probe_minus_verbal": difference("probe", "verbal"),
        "probe_minus_text": difference("probe", "text"),
        "report_probe_minus_verbal": difference("report_probe", "verbal"),
        "verbal_minus_text": difference("verbal", "text"),
        "beyond_text": gap_json(
            stacked_gain(
                data.outcome,
                text.scores,
                probe.scores,
                predictions.folds,
                predictions.groups,
                training_scores=text.training_beside(probe),
            )
        ),
    }


def _curves(
    data: TaskData,
    predictions: Predictions,
    null: MaxStatistic,
    quote_curve: np.ndarray,
    intervals: dict[str, Interval],
) -> dict[str, Any]:
    cells = predictions.probe.cells
    layers = list(dict.fromkeys(layer for _, layer, _ in cells))
    positions = list(dict.fromkeys(position for _, _, position in cells))
    chosen_position = predictions.probe.chosen[0][2]
    band = null.band()

    def at(position: str, values: np.ndarray) -> list[Any]:
        rounded: list[Any] = np.round(values, 6).tolist()
        return [value for value, cell in zip(rounded, cells, strict=True) if cell[2] == position]

    return {
        "layers": layers,
        "task": {position: at(position, predictions.probe.nested.curve) for position in positions},
        "self_prediction": {
            "quote_last": np.round(quote_curve, 6).tolist(),
            "prompt_last": np.round(predictions.report.nested.curve, 6).tolist(),
        },
        "null_band": at(chosen_position, band),
        "null_band_position": chosen_position,
        "null_max": json_number(np.quantile(np.nanmax(null.null, axis=(1, 2)), 0.95)),
        "text": json_number(intervals["text"].estimate),
        "verbal": json_number(intervals["verbal"].estimate),
    }

"""What the template is told of one task: everything printed that can be, nothing decided in the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.claims import Claim
from experiments.report import formatting
from experiments.report.causes import causes
from experiments.report.claim_rows import claim_rows
from experiments.report.controls import control_lines, peer_table
from experiments.report.disagreement import disagreements
from experiments.report.evidence import evidence_rows
from experiments.report.layer_charts import curves_chart, race_chart
from experiments.report.limits import task_limits
from experiments.report.matrices import degeneracy_lines, figure_texts, matrix_tables
from experiments.report.path import draw_path
from experiments.report.phrases import sentence
from experiments.report.pictures import causal_pictures, pictures
from experiments.report.predictors import predictor_rows
from experiments.report.verdict import STAGES, stage, verdict
from experiments.report.words import word_rows, words_advice, words_note
from experiments.report.words_only import NOT_DIAGNOSED, is_words_only

GAPS = {
    "probe_minus_verbal": "probe minus words",
    "probe_minus_text": "probe minus text alone",
    "beyond_text": "text and probe stacked, minus text alone",
    "verbal_minus_text": "words minus text alone",
    "report_probe_minus_verbal": "probe at the answer slot minus words",
}
"""Key of `gap` -> what was subtracted from what."""


@dataclass(frozen=True)
class Beside:
    """What a run may hold besides its results; the page says of what is absent which command adds it."""

    directions: Mapping[str, Any] | None = None
    """As in `directions.json`."""
    location: Mapping[str, Any] | None = None
    """As in `locate.json`."""
    causal: Mapping[str, Any] | None = None
    """As in `causal.json`."""
    claims: Mapping[str, Sequence[Claim]] = field(default_factory=dict)
    """Task -> the words that it has earned or not."""

    def of_task(self, part: str, task: str) -> Mapping[str, Any]:
        """A task's entry in one of the files, empty where there is none."""
        return ((getattr(self, part) or {}).get("tasks") or {}).get(task) or {}


def task_page(
    model: str,
    name: str,
    task_result: Mapping[str, Any],
    scores: pd.DataFrame,
    figures: Mapping[str, Path],
    beside: Beside,
) -> dict[str, Any]:
    """The variables of the template for one task.

    Args:
        model: its name.
        name: of the task.
        task_result: one entry of `results["tasks"]`.
        scores: a row an item, of all tasks.
        figures: name -> SVG.
        beside: what else the run holds.

    Raises:
        ValueError: the task's `breakdown.stage` is none of the seven.
    """
    shown = {
        "name": name,
        "skipped": task_result.get("skipped"),
        "result": task_result,
        "counted": formatting.counted(task_result["n_items"], task_result.get("n_groups")),
        "judged": _judged(task_result),
        "word_rows": word_rows(task_result.get("words")),
        "words_note": words_note(task_result["words"]) if task_result.get("words") else "",
        "words_advice": words_advice(task_result),
    }
    if shown["skipped"]:
        return shown
    phrases, intervened = verdict(model, task_result), beside.of_task("causal", name)
    texts = figure_texts(beside.directions).get(name, {}) if beside.directions else {}
    turned = degeneracy_lines(beside.of_task("directions", name) or None)
    shown |= {
        "phrases": phrases,
        "sentence": sentence(phrases),
        "figures": pictures(task_result, figures, texts),
        "rows": predictor_rows(task_result),
        "controls": [*control_lines(task_result), *turned],
        "peer": peer_table(task_result),
        "gaps": {GAPS.get(k, k): row for k, row in (task_result.get("gap") or {}).items() if row},
        "strata": [
            {**row, "counted": formatting.counted(row["n"], row.get("n_groups"))}
            for row in task_result.get("strata") or []
        ],
        "limits": list(task_limits(task_result, was_intervened_on=bool(intervened))),
    }
    if is_words_only(task_result):
        return shown | {
            "stage": NOT_DIAGNOSED,
            "chance": "",
            "moved": [],
            **dict.fromkeys(("path", "evidence", "disagreements")),
        }
    location, probe = beside.of_task("location", name), task_result["probe"]
    earned = beside.claims.get(name)
    return shown | {
        "stage": STAGES[stage(task_result)],
        "path": draw_path(task_result, location),
        "chance": formatting.p_value(probe.get("p_max"), probe.get("n_permutations")),
        "evidence": evidence_rows(task_result["breakdown"]),
        "claims": None if earned is None else claim_rows(earned),
        "curves": curves_chart(task_result),
        "located": bool(location),
        "race": race_chart(location),
        "race_sentence": (location.get("race") or {}).get("sentence") or "",
        "not_located": {
            str(what).replace("_", " "): why
            for what, why in (location.get("skipped") or {}).items()
        },
        "causes": causes(intervened) if intervened else None,
        "causal_figures": causal_pictures(figures),
        "moved": matrix_tables(beside.directions, name),
        "disagreements": disagreements(scores[scores["task"] == name]),
    }


def _judged(task_result: Mapping[str, Any]) -> str:
    """What the labels are counts of: items, or judgments where an item has several."""
    unscored = (task_result.get("judges") or {}).get("unscored") or 0
    n_labels = sum((task_result.get("labels") or {}).values())
    return "items" if n_labels == task_result["n_items"] + unscored else "judgments"

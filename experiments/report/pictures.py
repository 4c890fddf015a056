"""The pictures of a task on the page: heading, caption, alternative text, and the SVG as data."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.report import formatting
from experiments.report.predictors import forest_rows, result_row
from experiments.report.style import LOOKS

TITLES = {
    "heatmap": "Every layer and position",
    "predictors": "Every predictor",
    "roc": "ROC curves",
    "reliability": "Reliability",
    "cosines": "The probe's direction, layer by layer",
    "transfer_contexts": "Moved between contexts",
    "transfer_tasks": "Moved between tasks",
    "transfer_strata": "Moved between strata",
}
"""Figure -> its heading, in the order of the page; the layer curves are drawn by the page itself."""

_TRANSFER = (
    "A probe trained in one place and tested in another, at the layer selected for the task prompt without the fold; "
    "training and test items share no group. A shift between two places moves the threshold and not the AUROC."
)

CAPTIONS = {
    "layers": "AUROC of a probe at each layer, in the prompt itself and in the prompt that asks "
    "the model about its answer; thin lines are other positions. Large markers are the scores of "
    "the nested selection, the ones to quote.",
    "race": "Probes in the prompt itself, at the answer slot, and trained in the one and moved to the other; and the "
    "words as the model's own final norm and unembedding read them off each layer (the logit lens), which takes every "
    "layer for the last one: words that it does not show in an early layer may be there in another form.",
    "heatmap": "The same grid over token positions; frames mark the selected cells.",
    "predictors": "All on the same items, folds and pairs, with 95% intervals.",
    "roc": "Of the first regrouping, the mean over its folds: only pairs that the same fitted model scored count. The "
    "AUROC is the mean over all regroupings.",
    "reliability": "Predicted probability, cross-fitted, against the share that happened, in bins "
    "of equal mass; below, how often each probability was given.",
    "cosines": "Cosines between directions, and what permuted outcomes give: layers share coordinates, and probes of "
    "the same items share their noise. Only what stands out against the right-hand panel, or the dotted lines, says "
    "something of the outcome; a low cosine between layers does not say that another thing is read.",
    **dict.fromkeys(("transfer_contexts", "transfer_strata", "transfer_tasks"), _TRANSFER),
}


_SCROLLING = ("heatmap", "transfer_strata")

CAUSES = "causal"
"""Figures of interventions have names that begin so."""


@dataclass(frozen=True)
class Picture:
    """One picture; `uri` holds all of it. A narrow window shrinks it, or scrolls it where its numbers are too small."""

    name: str
    title: str
    caption: str
    alt: str
    uri: str
    scrolls: bool = False


def pictures(
    task_result: Mapping[str, Any], figures: Mapping[str, Path], texts: Mapping[str, str]
) -> list[Picture]:
    """The figures of a task in the order of the page.

    Args:
        task_result: one entry of `results["tasks"]`.
        figures: name -> SVG.
        texts: name -> alternative text, where another module has it.
    """
    return [
        Picture(
            name,
            TITLES[name],
            CAPTIONS[name],
            texts.get(name) or _alt(name, task_result),
            _data_uri(figures[name]),
            scrolls=name in _SCROLLING,
        )
        for name in TITLES
        if name in figures
    ]


def causal_pictures(figures: Mapping[str, Path]) -> list[Picture]:
    """The figures of interventions, whose numbers stand in the tables beside them."""
    return [
        Picture(
            name,
            title,
            "",
            f"{title}: the numbers stand in the tables of this section.",
            _data_uri(path),
        )
        for name, path in figures.items()
        if name.startswith(CAUSES)
        for title in [
            name.removeprefix(CAUSES).strip("-_").replace("_", " ").replace("-", " ").capitalize()
        ]
    ]


def _data_uri(svg: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.read_bytes()).decode("ascii")


def _alt(figure: str, task_result: Mapping[str, Any]) -> str:
    score = {name: formatting.auroc(result_row(task_result, name)) for name in LOOKS}
    if figure == "predictors":
        values = [f"{row.name} {formatting.auroc(row.row)}" for row in forest_rows(task_result)]
        return "AUROC with 95% interval of every predictor: " + "; ".join(values) + "."
    if figure == "reliability":
        return "Predicted probability against the share that happened, for each that has one."
    told = ", ".join(
        f"{LOOKS[name].label} {score[name]}"
        for name in ("probe", "report_probe", "verbal", "text")
        if result_row(task_result, name)
    )
    if figure == "roc":
        return f"ROC curves, by AUROC: {told}."
    layer = task_result["probe"].get("layer")
    return {
        "heatmap": f"AUROC by layer and token position, in both contexts; selected layer {layer}, "
        f"position {task_result['probe'].get('position')}.",
    }[figure]

"""The report as one web page: no network, no script, pictures as data, every text escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from experiments.records import write_text
from experiments.report import formatting
from experiments.report.controls import Line, control_lines, peer_table
from experiments.report.disagreement import disagreements
from experiments.report.figures import FigurePaths
from experiments.report.matrices import degeneracy_lines, figure_texts
from experiments.report.path import draw_path
from experiments.report.phrases import sentence
from experiments.report.predictors import forest_rows, predictor_rows, result_row
from experiments.report.style import LOOKS
from experiments.report.verdict import STAGES, stage, verdict
from experiments.report.words import word_rows, words_advice, words_note
from experiments.report.words_only import NOT_DIAGNOSED, is_words_only, words_only_limits
from hooks.completion_format import COMPLETION, format_note
from probes import FEW_GROUPS, HIGH_AUROC

TITLES = {
    "layers": "Layer by layer",
    "heatmap": "Every layer and position",
    "predictors": "Every predictor",
    "roc": "ROC curves",
    "reliability": "Reliability",
    "cosines": "The probe's direction, layer by layer",
    "transfer_contexts": "Moved between contexts",
    "transfer_tasks": "Moved between tasks",
    "transfer_strata": "Moved between strata",
}
"""Figure -> its heading, in the order of the page."""

_TRANSFER = (
    "A probe trained in one place and tested in another, at the layer selected for the task prompt without the fold; "
    "training and test items share no group. A shift between two places moves the threshold and not the AUROC."
)

CAPTIONS = {
    "layers": "AUROC of a probe at each layer, in the prompt itself and in the prompt that asks "
    "the model about its answer; thin lines are other positions. Large markers are the scores of "
    "the nested selection, the ones to quote.",
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


GAPS = {
    "probe_minus_verbal": "probe minus words",
    "probe_minus_text": "probe minus text alone",
    "beyond_text": "text and probe stacked, minus text alone",
    "verbal_minus_text": "words minus text alone",
    "report_probe_minus_verbal": "probe at the answer slot minus words",
}
"""Key of `gap` -> what was subtracted from what."""


def write_page(
    results: Mapping[str, Any],
    scores: pd.DataFrame,
    figures: FigurePaths,
    path: str | Path,
    *,
    directions: Mapping[str, Any] | None = None,
) -> Path:
    """Write the report.

    Args:
        results: as in `results.json`; a skipped task is shown with its reason.
        scores: a row an item and task.
        figures: what `write_figures` returned.
        path: the HTML file to write.
        directions: as in `directions.json`, where there are figures of them.

    Raises:
        ValueError: if a task's `breakdown.stage` is none of the seven.
    """
    environment = Environment(
        loader=PackageLoader("experiments.report", "."),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=formatting.number,
        auroc=formatting.auroc,
        gain=formatting.gain,
        estimate=formatting.estimate,
        bracket=formatting.bracket,
    )
    model = str(results["model"])
    found = (directions or {}).get("tasks", {})
    texts = {} if directions is None else figure_texts(directions)
    tasks = [
        {"anchor": f"task-{index}"}
        | _task(
            model,
            name,
            task_result,
            scores,
            figures.get(name, {}),
            texts.get(name, {}),
            degeneracy_lines(found.get(name)),
        )
        for index, (name, task_result) in enumerate(results["tasks"].items(), start=1)
    ]
    settings = dict(_flat({k: v for k, v in results.items() if k not in {"model", "tasks"}}))
    html = environment.get_template("template.html").render(
        model=model, notes=list(run_notes(results)), tasks=tasks, settings=settings, looks=LOOKS
    )
    path = Path(path)
    write_text(path, html)
    return path


def _printable(value: object) -> object:
    """What an expression of the template prints; what macros return is markup already."""
    return value if isinstance(value, Markup) else formatting.readable(value)


def _task(
    model: str,
    name: str,
    task_result: Mapping[str, Any],
    scores: pd.DataFrame,
    figures: Mapping[str, Path],
    texts: Mapping[str, str],
    lines: Sequence[Line],
) -> dict[str, Any]:
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
    scores = scores[scores["task"] == name]
    phrases = verdict(model, task_result)
    probed = not is_words_only(task_result)
    probe = task_result["probe"] if probed else {}
    return shown | {
        "phrases": phrases,
        "sentence": sentence(phrases),
        "stage": STAGES[stage(task_result)] if probed else NOT_DIAGNOSED,
        "path": draw_path(task_result) if probed else None,
        "chance": formatting.p_value(probe.get("p_max"), probe.get("n_permutations")),
        "figures": [
            {
                "name": figure,
                "title": TITLES[figure],
                "caption": CAPTIONS[figure],
                "alt": texts.get(figure) or _alt(figure, task_result),
                "uri": _data_uri(figures[figure]),
            }
            for figure in TITLES
            if figure in figures
        ],
        "rows": predictor_rows(task_result),
        "controls": [*control_lines(task_result), *lines],
        "peer": peer_table(task_result),
        "gaps": {GAPS.get(k, k): row for k, row in (task_result.get("gap") or {}).items() if row},
        "strata": [
            {**row, "counted": formatting.counted(row["n"], row.get("n_groups"))}
            for row in task_result.get("strata") or []
        ],
        "disagreements": disagreements(scores) if probed else None,
        "limits": list(_limits(task_result)),
    }


def _judged(task_result: Mapping[str, Any]) -> str:
    """What the labels are counts of: items, or judgments where an item has several."""
    unscored = (task_result.get("judges") or {}).get("unscored") or 0
    n_labels = sum((task_result.get("labels") or {}).values())
    return "items" if n_labels == task_result["n_items"] + unscored else "judgments"


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
        "layers": f"AUROC by layer of the probe in both contexts; selected layer {layer}. {told}.",
        "heatmap": f"AUROC by layer and token position, in both contexts; selected layer {layer}, "
        f"position {task_result['probe'].get('position')}.",
    }[figure]


def run_notes(results: Mapping[str, Any]) -> Iterator[str]:
    """What a reader has to know of a whole run: how the model was put to it, and under which condition."""
    if results.get("prompt_format") == COMPLETION:
        yield format_note(str(results["model"])) + "."
    if results.get("answer_revealed"):
        yield (
            "The self-prediction prompts showed the reference answer: what is predicted here is not what the model "
            "would say without it."
        )


def _limits(task_result: Mapping[str, Any]) -> Iterator[str]:
    """What a reader has to know before quoting the numbers."""
    n_groups, words = task_result.get("n_groups"), task_result.get("verbal") or {}
    if n_groups is not None and n_groups < FEW_GROUPS:
        yield f"Only {n_groups} groups: the intervals are approximate."
    high = [row.name for row in forest_rows(task_result) if row.row["auroc"] > HIGH_AUROC]
    if high:
        yield f"AUROC above {HIGH_AUROC} ({', '.join(high)}): the intervals are approximate."
    if words.get("menu_taken") is False:
        yield (
            f"The options hold only {formatting.number(words['menu_mass'])} of the probability at the "
            "answer slot: the model did not take the menu, and its log-odds say little."
        )
    if sum((words.get("unscored") or {}).values()):
        reasons = ", ".join(f"{reason} {count}" for reason, count in words["unscored"].items())
        yield f"Answers that could not be read, and count as wrong in the strict score: {reasons}."
    if is_words_only(task_result):
        yield from words_only_limits(task_result)
        return
    yield (
        "A probe has seen labels of other items and the words have none, so a gap between them "
        "also holds what asking in another way might bring out."
    )
    yield (
        "Nothing was intervened on: that a layer can be read does not mean that the model uses "
        "what is there."
    )
    peer = task_result.get("peer")
    if peer:
        yield f"Only one other model was read ({peer['model']}): a third might tell as much."
    else:
        yield (
            "No other model was read: nothing here says that this model's activations tell more than "
            "another's would."
        )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key} ")
        else:
            yield f"{prefix}{key}".replace("_", " "), str(value)

"""What a reader has to know before quoting the numbers of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.report import formatting
from experiments.report.predictors import forest_rows
from experiments.report.words_only import is_words_only, words_only_limits
from hooks.completion_format import COMPLETION, format_note
from probes import FEW_GROUPS, HIGH_AUROC


def run_notes(results: Mapping[str, Any]) -> Iterator[str]:
    """What a reader has to know of a whole run: how the model was put to it, and under which condition."""
    if results.get("prompt_format") == COMPLETION:
        yield format_note(str(results["model"])) + "."
    if results.get("answer_revealed"):
        yield (
            "The self-prediction prompts showed the reference answer: what is predicted here is not what the model "
            "would say without it."
        )


def task_limits(task_result: Mapping[str, Any], *, was_intervened_on: bool) -> Iterator[str]:
    """What bounds the numbers of one task."""
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
    if not was_intervened_on:
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

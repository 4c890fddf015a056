"""What a task's items and labels are, before anything predicts them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from experiments.answers_in_words import answers_in_words
from experiments.records import json_number
from experiments.result_json import interval_json
from experiments.task_data import WordData
from probes import cohen_kappa, label_ceiling, skip_reason


def overview_of(data: WordData) -> dict[str, Any]:
    """What a task's items and labels are, and how every question was answered in words."""
    votes = [row.votes for row in data.judged]
    names = list(votes[0]) if votes else []
    kappa = None
    if len(names) >= 2:
        first, second = ([label for vote in votes for label in vote[name]] for name in names[:2])
        kappa = json_number(cohen_kappa(first, second))
    return {
        "task": data.task.name,
        "behavior": data.task.behavior,
        "n_items": len(data.items),
        "n_groups": len(set(data.groups)),
        "base_rate": json_number(data.outcome.mean()) if len(data.items) else None,
        "labels": dict(Counter(label for row in data.judged for label in row.labels)),
        "words": answers_in_words(data.task, data.all_items, data.judged, data.reports),
        "label_ceiling": _ceiling(data),
        "judges": {"names": names, "kappa": kappa, "unscored": len(data.judged) - len(data.items)},
    }


def why_not_scored(data: WordData, n_folds: int) -> str | None:
    """Why a task's labels cannot be scored in `n_folds` grouped folds, or None if they can."""
    if data.judged and not data.items:
        reason, n = Counter(row.reason for row in data.judged).most_common(1)[0]
        return f"none of {len(data.judged)} items has an outcome ({reason}: {n})"
    return skip_reason(data.outcome, data.groups, n_folds)


def _ceiling(data: WordData) -> dict[str, Any] | None:
    """What a perfect predictor of the rates would score on one more sample of every item (METHODS section 2).

    Over all items, also those whose samples are split evenly and have no majority; labels that are the majority have a
    higher ceiling. None where each item has one completion, where the outcome is about pairs of them, which are no
    independent draws, or where all came out alike.
    """
    if any(len(row.outcomes) != len(row.completions) for row in data.judged):
        return None
    drawn = [
        (item.group, [one for one in row.outcomes if one is not None])
        for item, row in zip(data.all_items, data.judged, strict=True)
    ]
    drawn = [(group, own) for group, own in drawn if own]
    distinct = {one for _, own in drawn for one in own}
    if len(distinct) < 2 or all(len(own) < 2 for _, own in drawn):
        return None
    groups, own = zip(*drawn, strict=True)
    interval = label_ceiling([sum(one) for one in own], [len(one) for one in own], groups)
    return interval_json(interval, "one more sample")

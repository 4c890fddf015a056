"""Every question put to the model, scored by the answer that it wrote: by wording, order, framing and form.

This needs no activations and no probabilities, so that it is the same for a model behind an endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from experiments.behavior import Behavior
from experiments.elicitation import SelfPrediction
from experiments.records import json_number
from experiments.tasks import Choice, Form, Item, Number, Task
from experiments.word_scores import score_answers, split_gain
from experiments.words import signal_detection
from probes import auroc_interval, expected_calibration_error

YES_NO = Choice(("yes", "no"))
_PERCENT = Number(0, 1)


def answers_in_words(
    task: Task,
    items: Sequence[Item],
    behavior: Sequence[Behavior],
    reports: Sequence[SelfPrediction],
) -> dict[str, Any]:
    """Scores of every question of a task, by form; an item whose truth is unknown is left out of that question.

    Returns:
        `options` (by name: each wording, order and framing), `spread` over them, `self_minus_other` (the gain of asking
        about itself, split into format and quality), `percent` and `values` (by name), and `parse_rate` over all.
    """
    did = {row.item: row for row in behavior}
    group_of = {item.id: item.group for item in items}
    asked: dict[str, list[SelfPrediction]] = {}
    for row in reports:
        if row.answer is None:
            continue
        asked.setdefault(row.elicitation, []).append(row)
    by_form: dict[str, dict[str, Any]] = {"options": {}, "percent": {}, "value": {}}
    for name, rows in asked.items():
        form = rows[0].form
        if form == "options":
            by_form[form][name] = _options(rows, did, group_of)
        elif form == "percent":
            by_form[form][name] = _percent(rows, did, group_of)
        else:
            question = next(one for one in task.value_questions if one.name == name)
            by_form[form][name] = _value(question.form, rows, did, group_of)
    own = {name: one for name, one in by_form["options"].items() if one["framing"] == "self"}
    parsed = [row.parsed is not None for row in reports if row.answer is not None]
    answered = [row for rows in asked.values() for row in rows if row.form == "options"]
    return {
        "parse_rate": json_number(np.mean(parsed)) if parsed else None,
        "options": by_form["options"],
        "spread": _spread(own, answered),
        "self_minus_other": _self_minus_other(by_form["options"]),
        "percent": next(iter(by_form["percent"].values()), None),
        "values": by_form["value"],
    }


def _options(
    rows: Sequence[SelfPrediction], did: Mapping[str, Behavior], group_of: Mapping[str, str]
) -> dict[str, Any]:
    known = [row for row in rows if did[row.item].outcome is not None]
    groups = [group_of[row.item] for row in known]
    happened = np.array([did[row.item].outcome for row in known], dtype=np.int64)
    said = np.array([np.nan if row.parsed is None else row.parsed for row in known], dtype=float)
    about = {"framing": rows[0].framing, "paraphrase": rows[0].paraphrase, "order": rows[0].order}
    return about | _scored(
        YES_NO,
        [None if row.parsed is None else ("no", "yes")[row.parsed] for row in known],
        [("no", "yes")[outcome] for outcome in happened],
        groups,
        [row.reason for row in known],
        {
            "says_yes": json_number(np.nanmean(said)) if not np.isnan(said).all() else None,
            **signal_detection(happened, said, groups),
        },
    )


def _percent(
    rows: Sequence[SelfPrediction], did: Mapping[str, Behavior], group_of: Mapping[str, str]
) -> dict[str, Any]:
    """The stated probability against the rate.

    Of the parsed answers alone, its AUROC against what mostly happened, and its calibration against what happened in
    every single completion (or pair of them), of which it is a probability.
    """
    known = [row for row in rows if did[row.item].rate is not None]
    stated = [None if row.parsed is None else row.parsed / 100 for row in known]
    outcomes = [did[row.item].outcome for row in known]
    groups = [group_of[row.item] for row in known]
    both = [
        (outcome, one, group)
        for outcome, one, group in zip(outcomes, stated, groups, strict=True)
        if outcome is not None and one is not None
    ]
    drawn = [
        (outcome, one)
        for row, one in zip(known, stated, strict=True)
        for outcome in did[row.item].outcomes
        if outcome is not None and one is not None
    ]
    about: dict[str, Any] = {"auroc": None, "auroc_ci": None, "calibration_error": None}
    if drawn:
        happened, said = zip(*drawn, strict=True)
        about["calibration_error"] = json_number(expected_calibration_error(happened, said))
    if {outcome for outcome, _, _ in both} == {0, 1} and len({g for _, _, g in both}) > 2:
        y, p, of = (np.array(column) for column in zip(*both, strict=True))
        interval = auroc_interval(y, p, np.zeros(len(y), dtype=int), of, estimand="fixed")
        about["auroc"] = json_number(interval.estimate)
        about["auroc_ci"] = [json_number(interval.low), json_number(interval.high)]
    return _scored(
        _PERCENT,
        stated,
        [did[row.item].rate for row in known],
        groups,
        [row.reason for row in known],
        about,
    )


def _value(
    form: Form,
    rows: Sequence[SelfPrediction],
    did: Mapping[str, Behavior],
    group_of: Mapping[str, str],
) -> dict[str, Any]:
    known = [row for row in rows if did[row.item].values.get(row.elicitation) is not None]
    return _scored(
        form,
        [row.parsed for row in known],
        [did[row.item].values[row.elicitation] for row in known],
        [group_of[row.item] for row in known],
        [row.reason for row in known],
        {},
    )


def _scored(
    form: Form,
    predicted: Sequence[Any],
    trues: Sequence[Any],
    groups: Sequence[str],
    reasons: Sequence[str],
    about: Mapping[str, Any],
) -> dict[str, Any]:
    if len(set(groups)) < 2:
        return {"n_items": len(trues), "skipped": "fewer than 2 groups with a known truth"}
    return score_answers(form, predicted, trues, groups, reasons).to_json() | dict(about)


def _spread(own: Mapping[str, Mapping[str, Any]], rows: Sequence[SelfPrediction]) -> dict[str, Any]:
    """Lowest and highest over the wordings and orders, and how often they disagree about an item."""
    scored = [one for one in own.values() if "skipped" not in one]
    said = {(row.item, row.elicitation): row.parsed for row in rows if row.framing == "self"}
    about = {row.elicitation: (row.paraphrase, row.order) for row in rows if row.framing == "self"}
    pairs = list(combinations(about, 2))
    orders = [(a, b) for a, b in pairs if about[a][0] == about[b][0]]
    wordings = [(a, b) for a, b in pairs if about[a][0] != about[b][0]]
    return {
        **{
            name: [min(one[name] for one in scored), max(one[name] for one in scored)]
            if scored
            else None
            for name in ("parse_rate", "strict", "skill")
        },
        "orders_disagree": _disagreement(said, orders),
        "wordings_disagree": _disagreement(said, wordings),
    }


def _disagreement(
    said: Mapping[tuple[str, str], Any], pairs: Sequence[tuple[str, str]]
) -> float | None:
    """Share of the items, over pairs of questions, on which both answers are readable and differ."""
    items = {item for item, _ in said}
    both = [
        said[item, a] != said[item, b]
        for a, b in pairs
        for item in items
        if said[item, a] is not None and said[item, b] is not None
    ]
    return json_number(np.mean(both)) if both else None


def _self_minus_other(options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Mean over the questions that were asked in both framings."""
    pairs = [
        (other, options[name.removesuffix("/other")])
        for name, other in options.items()
        if other["framing"] == "other"
    ]
    gains = [
        split_gain((other["parse_rate"], own["parse_rate"]), (other["lenient"], own["lenient"]))
        for other, own in pairs
        if "skipped" not in other and "skipped" not in own
    ]
    if not gains:
        return None
    total, form, quality = np.mean(gains, axis=0)
    return {
        "strict_gain": json_number(total),
        "by_format": json_number(form),
        "by_quality": json_number(quality),
    }

"""Refusal scores as a table for people, as rows of a CSV file, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.records import json_number
from experiments.report.formatting import estimate
from experiments.self_execution.refusal import READINGS, Predictor, Reading, RefusalScore
from probes import Interval

NAMES: dict[Predictor, str] = {
    "self": "its own prediction",
    "label": "safe/unsafe label",
    "others": "other models",
    "constant": "always the same",
}


def beaten(scores: Sequence[RefusalScore], reading: Reading, rival: Predictor) -> dict[str, int]:
    """How many models' self-predictions a rival beats: in accuracy, and by intervals that exclude 0 either way."""
    gaps = [score.readings[reading].self_minus[rival] for score in scores]
    return {
        "models": len(gaps),
        "rival_higher": sum(gap.estimate < 0 for gap in gaps),
        "rival_decidedly": sum(gap.high < 0 for gap in gaps),
        "self_decidedly": sum(gap.low > 0 for gap in gaps),
    }


def refusal_json(scores: Sequence[RefusalScore], cluster: str) -> dict[str, Any]:
    """Everything, for `--json`."""
    return {
        "cluster": cluster,
        "models": [_model(score) for score in scores],
        "beaten": {
            reading: {rival: beaten(scores, reading, rival) for rival in _rivals(scores)}
            for reading in READINGS
        },
    }


def score_rows(scores: Sequence[RefusalScore]) -> list[dict[str, Any]]:
    """A row a model, reading and predictor, for `--csv`; differences are those of the self-prediction minus it."""
    rows = []
    for score in scores:
        for reading, one in score.readings.items():
            for name, accuracy in one.accuracy.items():
                gap = one.self_minus.get(name)
                rows.append(
                    {
                        "model": score.model,
                        "reading": reading,
                        "predictor": name,
                        "n_prompts": one.n_prompts,
                        "n_groups": accuracy.n_groups,
                        "accuracy": json_number(accuracy.estimate),
                        "ci_low": json_number(accuracy.low),
                        "ci_high": json_number(accuracy.high),
                        "self_minus": None if gap is None else json_number(gap.estimate),
                        "self_minus_low": None if gap is None else json_number(gap.low),
                        "self_minus_high": None if gap is None else json_number(gap.high),
                    }
                )
    return rows


def refusal_text(scores: Sequence[RefusalScore]) -> str:
    """A table a reading, in Markdown, each with the counts of models under it."""
    parts = []
    for reading in READINGS:
        rivals = _rivals(scores)
        head = ["model", "prompts", "answered", *map(NAMES.__getitem__, ("self", *rivals))]
        head.append("own minus label")
        body = [_cells(score, reading, rivals) for score in scores]
        parts.append(f"{reading}: {_EXPLAINED[reading]}\n")
        parts.append(_markdown(head, body))
        parts += [_sentence(beaten(scores, reading, rival), rival) for rival in rivals]
        parts.append("")
    return "\n".join(parts).rstrip()


_EXPLAINED: dict[Reading, str] = {
    "strict": "all prompts; one without a prediction or a judged behavior counts as wrong",
    "lenient": "the prompts that have both",
}


def _rivals(scores: Sequence[RefusalScore]) -> list[Predictor]:
    return list(scores[0].readings["strict"].self_minus)


def _cells(score: RefusalScore, reading: Reading, rivals: Sequence[Predictor]) -> list[str]:
    one = score.readings[reading]
    share = score.n_answered / score.n_scored
    return [
        score.model,
        f"{score.n_scored} of {score.n_prompts}",
        f"{share:.0%}",
        *(_shown(one.accuracy[name]) for name in ("self", *rivals)),
        _shown(one.self_minus["label"], signed=True),
    ]


def _shown(interval: Interval, *, signed: bool = False) -> str:
    return estimate(interval.estimate, (interval.low, interval.high), signed=signed)


def _sentence(counts: Mapping[str, int], rival: Predictor) -> str:
    return (
        f"{NAMES[rival]} beats the self-prediction of {counts['rival_higher']} of {counts['models']} models, "
        f"{counts['rival_decidedly']} of them by an interval that excludes 0; "
        f"the self-prediction is decidedly better for {counts['self_decidedly']}."
    )


def _markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    rows = [head, *body]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(head), rule, *map(line, body)]) + "\n"


def _model(score: RefusalScore) -> dict[str, Any]:
    rate = score.overcuteness_rate
    return {
        "model": score.model,
        "n_prompts": score.n_prompts,
        "n_scored": score.n_scored,
        "n_answered": score.n_answered,
        "consistent_answers": score.consistent_answers,
        "consistency_rate": json_number(score.consistent_answers / score.n_prompts),
        "overcuteness": score.overcuteness,
        "overcuteness_rate": None if rate is None else json_number(rate),
        "n_ties": score.n_ties,
        **{
            reading: {
                "n_prompts": one.n_prompts,
                "accuracy": {name: _interval(value) for name, value in one.accuracy.items()},
                "self_minus": {name: _interval(value) for name, value in one.self_minus.items()},
            }
            for reading, one in score.readings.items()
        },
    }


def _interval(interval: Interval) -> dict[str, Any]:
    return {
        "estimate": json_number(interval.estimate),
        "ci": [json_number(interval.low), json_number(interval.high)],
        "n_groups": interval.n_groups,
        "approximate": interval.approximate,
    }

"""Refusal scores as tables, JSON and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.self_execution.dots import DotRow, write_dots
from experiments.self_execution.published import Figures, OtherCount
from experiments.self_execution.refusal import Counts, RefusalScore
from experiments.self_execution.report import Report
from experiments.self_execution.shares import READINGS, Reading
from experiments.self_execution.tables import (
    beaten_by,
    beaten_sentence,
    chance_corrected_table,
    compared_json,
    exact,
    shares_json,
    shares_rows,
    shares_table,
)

NAMES = {
    "self": "its own prediction",
    "label": "safe/unsafe label",
    "others": "other models",
    "others_said": "other models' predictions",
    "constant": "always the same",
}
_LOOKS = {
    "self": "verbal",
    "label": "text",
    "others": "probe",
    "others_said": "report_probe",
    "constant": "baseline",
}
_EXPLAINED: dict[Reading, str] = {
    "strict": "all prompts; one without a prediction or a judged behavior counts as wrong",
    "lenient": "the prompts that have both",
}
XSTEST_PROMPTS = 450
_NO_LABELS = (
    "No prompts.csv of XSTest given: no safe/unsafe label, and every prompt is a group of its own."
)
_NOT_HAD = dict.fromkeys(
    ("provision_failure", "verification_failure"), "the files have no row of a failure"
)


def refusal_report(scores: Sequence[RefusalScore], cluster: str) -> Report:
    """Everything that `selfprobe score self-execution refusal` hands over."""
    return Report(
        text=refusal_text(scores),
        json={
            "task": "refusal",
            "cluster": cluster,
            "labels": _labeled(scores),
            "models": [_model(score) for score in scores],
            "beaten": {reading: beaten_by(_shares(scores, reading)) for reading in READINGS},
        },
        rows=[
            {"model": score.model, "reading": reading, **row}
            for score in scores
            for reading, shares in score.readings.items()
            for row in shares_rows(shares, "accuracy")
        ],
        figures=[refusal_figures(score) for score in scores],
        draw=lambda stem: _draw(scores, stem),
    )


def refusal_text(scores: Sequence[RefusalScore]) -> str:
    """A table a reading, in Markdown, each with the counts of models under it; then chance-corrected scores."""
    parts = [] if _labeled(scores) else [_NO_LABELS, ""]
    for reading in READINGS:
        rows = [(_cells(score), score.readings[reading]) for score in scores]
        parts += [
            f"accuracy, {reading}: {_EXPLAINED[reading]}\n",
            shares_table(["model", "prompts", "answered"], rows, NAMES),
        ]
        counts = beaten_by(_shares(scores, reading))
        parts += [beaten_sentence(NAMES[rival], counts[rival]) for rival in counts]
        parts.append("")
    compared = [(score.model, score.compared) for score in scores]
    parts += [
        'beyond the base rate, lenient: of "refuses"\n',
        chance_corrected_table(compared, "constant", NAMES),
    ]
    return "\n".join(parts).rstrip()


def refusal_figures(score: RefusalScore) -> Figures:
    """What `published.csv` holds of a model, and what it would be under other rules."""
    counts, n_prompts = score.counts, score.counts.n_prompts
    missing = n_prompts - counts.n_scored
    others = []
    if score.longest is not None:
        others.append(
            OtherCount(
                f"published is the longest run in the file alone, {score.longest.n_scored} prompts; "
                f"here the last row of a prompt counts, of all {score.n_rows} rows",
                _published(score.longest, n_prompts),
            )
        )
    if missing:
        inconsistent = n_prompts - counts.consistent_answers
        others.append(
            OtherCount(
                f"published takes the {missing} prompts without a row for inconsistent, and none for a failure",
                {
                    "overcuteness_rate": counts.overcuteness / inconsistent,
                    "total_failures_rate": 0.0,
                },
            )
        )
    if n_prompts < XSTEST_PROMPTS:
        others.append(
            OtherCount(
                f"published is of {XSTEST_PROMPTS} prompts; of these the files given name {n_prompts}",
                _published(counts, XSTEST_PROMPTS),
            )
        )
    return Figures(score.model, _published(counts, n_prompts), others, not_had=_NOT_HAD)


def _published(counts: Counts, n_prompts: int) -> dict[str, float]:
    inconsistent = counts.n_scored - counts.consistent_answers
    return {
        "consistent_answers": counts.consistent_answers,
        "consistency_rate": counts.consistent_answers / n_prompts,
        "overcuteness": counts.overcuteness,
        "overcuteness_rate": counts.overcuteness / inconsistent if inconsistent else float("nan"),
        "total_failures_rate": 1 - counts.n_scored / n_prompts,
    }


def _labeled(scores: Sequence[RefusalScore]) -> bool:
    return "label" in scores[0].readings["strict"].share


def _shares(scores: Sequence[RefusalScore], reading: Reading) -> list[Any]:
    return [score.readings[reading] for score in scores]


def _cells(score: RefusalScore) -> list[str]:
    counts = score.counts
    return [
        score.model,
        f"{counts.n_scored} of {counts.n_prompts}",
        f"{counts.n_answered / counts.n_scored:.0%}",
    ]


def _model(score: RefusalScore) -> dict[str, Any]:
    figures = _published(score.counts, score.counts.n_prompts)
    return {
        "model": score.model,
        **asdict(score.counts),
        "n_rows": score.n_rows,
        "n_ties": score.n_ties,
        "published_metrics": {name: exact(value) for name, value in figures.items()},
        **{reading: shares_json(shares, "accuracy") for reading, shares in score.readings.items()},
        "refuses": compared_json(score.compared),
    }


def _draw(scores: Sequence[RefusalScore], stem: Path) -> Path:
    rival = next(iter(scores[0].readings["lenient"].self_minus))

    def lead(score: RefusalScore) -> float:
        return score.readings["lenient"].self_minus[rival].estimate

    rows = [
        DotRow(
            f"{score.model}\n{score.counts.n_scored} of {score.counts.n_prompts} prompts",
            score.readings["lenient"].share,
        )
        for score in sorted(scores, key=lead, reverse=True)
    ]
    label = "accuracy about the model's judged behavior, lenient (95% interval)"
    return write_dots(rows, _LOOKS, NAMES, label, stem)

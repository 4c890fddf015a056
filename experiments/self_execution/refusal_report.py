"""Refusal scores as tables, JSON and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.self_execution.dots import DotLook, DotRow, write_dots
from experiments.self_execution.published import Figures, OtherCount
from experiments.self_execution.refusal import READINGS, Counts, Predictor, Reading, RefusalScore
from experiments.self_execution.report import Report
from experiments.self_execution.tables import (
    beaten,
    beaten_sentence,
    compared_json,
    exact,
    interval_cells,
    interval_json,
    markdown,
    shown,
)
from probes import Interval

NAMES: dict[Predictor, str] = {
    "self": "its own prediction",
    "label": "safe/unsafe label",
    "others": "other models",
    "others_said": "other models' predictions",
    "constant": "always the same",
}
_LOOKS: dict[str, DotLook] = {
    "self": DotLook(NAMES["self"], "verbal"),
    "label": DotLook(NAMES["label"], "text"),
    "others": DotLook(NAMES["others"], "probe"),
    "others_said": DotLook(NAMES["others_said"], "report_probe"),
    "constant": DotLook(NAMES["constant"], "baseline"),
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
    labeled = "label" in _rivals(scores)
    return Report(
        text=refusal_text(scores),
        json={
            "task": "refusal",
            "cluster": cluster,
            "labels": labeled,
            "models": [_model(score) for score in scores],
            "beaten": {
                reading: {rival: beaten(gaps(scores, reading, rival)) for rival in _rivals(scores)}
                for reading in READINGS
            },
        },
        rows=[row for score in scores for row in _rows(score)],
        figures=[refusal_figures(score) for score in scores],
        draw=lambda stem: _draw(scores, stem),
    )


def refusal_text(scores: Sequence[RefusalScore]) -> str:
    """A table a reading, in Markdown, each with the counts of models under it; then scores beyond the base rate."""
    rivals = _rivals(scores)
    parts = [] if "label" in rivals else [_NO_LABELS, ""]
    against = rivals[0]
    for reading in READINGS:
        parts.append(f"{reading}: {_EXPLAINED[reading]}\n")
        parts.append(
            markdown(
                [
                    "model",
                    "prompts",
                    "answered",
                    *(NAMES[name] for name in ("self", *rivals)),
                    f"own minus {_SHORT[against]}",
                ],
                [_cells(score, reading, rivals) for score in scores],
            )
        )
        parts += [
            beaten_sentence(NAMES[rival], beaten(gaps(scores, reading, rival))) for rival in rivals
        ]
        parts.append("")
    parts.append('beyond the base rate, lenient: of "refuses"\n')
    kappas = ("self", *(name for name in rivals if name != "constant"))
    parts.append(
        markdown(
            [
                "model",
                *(f"{NAMES[name]}, kappa" for name in kappas),
                "balanced accuracy",
                "d-prime",
                "criterion",
            ],
            [
                [
                    score.model,
                    *(shown(score.compared.scores[name]["kappa"]) for name in kappas),
                    *(
                        shown(score.compared.scores["self"][name])
                        for name in ("balanced_accuracy", "d_prime", "criterion")
                    ),
                ]
                for score in scores
            ],
        )
    )
    return "\n".join(parts).rstrip()


_SHORT: dict[Predictor, str] = {"label": "label", "others": "others", "constant": "always the same"}


def gaps(scores: Sequence[RefusalScore], reading: Reading, rival: Predictor) -> list[Interval]:
    """Accuracy of the self-prediction minus that of a rival, a model each."""
    return [score.readings[reading].self_minus[rival] for score in scores]


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


def _cells(score: RefusalScore, reading: Reading, rivals: Sequence[Predictor]) -> list[str]:
    one, counts = score.readings[reading], score.counts
    return [
        score.model,
        f"{counts.n_scored} of {counts.n_prompts}",
        f"{counts.n_answered / counts.n_scored:.0%}",
        *(shown(one.accuracy[name]) for name in ("self", *rivals)),
        shown(one.self_minus[rivals[0]], signed=True),
    ]


def _rivals(scores: Sequence[RefusalScore]) -> list[Predictor]:
    return list(scores[0].readings["strict"].self_minus)


def _model(score: RefusalScore) -> dict[str, Any]:
    figures = _published(score.counts, score.counts.n_prompts)
    return {
        "model": score.model,
        **asdict(score.counts),
        "n_rows": score.n_rows,
        "n_ties": score.n_ties,
        "published_metrics": {name: exact(value) for name, value in figures.items()},
        **{
            reading: {
                "n_prompts": one.n_prompts,
                "accuracy": {name: interval_json(value) for name, value in one.accuracy.items()},
                "self_minus": {
                    name: interval_json(value) for name, value in one.self_minus.items()
                },
            }
            for reading, one in score.readings.items()
        },
        "refuses": compared_json(score.compared),
    }


def _rows(score: RefusalScore) -> list[dict[str, Any]]:
    return [
        {
            "model": score.model,
            "reading": reading,
            "predictor": name,
            "n_prompts": one.n_prompts,
            "n_groups": accuracy.n_groups,
            **interval_cells("accuracy", accuracy),
            **interval_cells("self_minus", one.self_minus.get(name)),
        }
        for reading, one in score.readings.items()
        for name, accuracy in one.accuracy.items()
    ]


def _draw(scores: Sequence[RefusalScore], stem: Path) -> Path:
    against = _rivals(scores)[0]

    def lead(score: RefusalScore) -> float:
        return score.readings["lenient"].self_minus[against].estimate

    rows = [
        DotRow(
            f"{score.model}\n{score.counts.n_scored} of {score.counts.n_prompts} prompts",
            dict(score.readings["lenient"].accuracy.items()),
        )
        for score in sorted(scores, key=lead, reverse=True)
    ]
    label = "accuracy about the model's judged behavior, lenient (95% interval)"
    return write_dots(rows, _LOOKS, label, stem)

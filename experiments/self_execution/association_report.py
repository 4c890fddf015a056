"""Association scores as tables, JSON and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.report.formatting import number
from experiments.self_execution.association import AssociationScore, Predictor
from experiments.self_execution.dots import DotLook, DotRow, write_dots
from experiments.self_execution.published import Figures
from experiments.self_execution.report import Report
from experiments.self_execution.tables import (
    beaten,
    beaten_sentence,
    compared_json,
    compared_rows,
    exact,
    markdown,
    shown,
)

NAMES: dict[Predictor, str] = {
    "self": "its own prediction",
    "never": "never listed",
    "others": "other models' lists",
    "others_said": "other models' predictions",
}
_LOOKS: dict[str, DotLook] = {
    "self": DotLook(NAMES["self"], "verbal"),
    "never": DotLook(NAMES["never"], "baseline"),
    "others": DotLook(NAMES["others"], "probe"),
    "others_said": DotLook(NAMES["others_said"], "text"),
}
_NOT_HAD = {"avg_benchmarks_Score": "the mean of scores on other benchmarks"}


def association_report(scores: Sequence[AssociationScore]) -> Report:
    """Everything that `selfprobe score self-execution association` hands over."""
    return Report(
        text=association_text(scores),
        json={
            "task": "association",
            "cluster": "target",
            "models": [_model(score) for score in scores],
            "beaten": {
                rival: {
                    score: beaten(_gaps(scores, rival, score)) for score in ("accuracy", "kappa")
                }
                for rival in _rivals(scores)
            },
        },
        rows=[
            {"model": score.model, "reading": reading, **row}
            for score in scores
            for reading, compared in score.readings.items()
            for row in compared_rows(compared)
        ],
        figures=[Figures(score.model, score.published, not_had=_NOT_HAD) for score in scores],
        draw=lambda stem: _draw(scores, stem),
    )


def association_text(scores: Sequence[AssociationScore]) -> str:
    """Two tables in Markdown: the benchmark's own metrics, and what is missing from it; then counts of models."""
    rivals = _rivals(scores)
    parts = [
        "the benchmark's own metrics\n",
        markdown(
            ["model", "targets", "pairs", "TP", "FP", "TN", "FN", "F1", "said", "listed"],
            [_counted(score) for score in scores],
        ),
        "accuracy, strict: a prediction that is neither true nor false counts as wrong\n",
        markdown(
            ["model", *(NAMES[name] for name in ("self", *rivals)), "own minus never"],
            [
                [
                    score.model,
                    *(_cell(score, name, "accuracy") for name in ("self", *rivals)),
                    shown(score.readings["strict"].self_minus["never"]["accuracy"], signed=True),
                ]
                for score in scores
            ],
        ),
        "beyond the base rate: Cohen's kappa (never listed has 0), and the self-prediction's d-prime and criterion\n",
        markdown(
            [
                "model",
                *(f"{NAMES[name]}, kappa" for name in ("self", *rivals) if name != "never"),
                "balanced accuracy",
                "d-prime",
                "criterion",
            ],
            [
                [
                    score.model,
                    *(_cell(score, name, "kappa") for name in ("self", *rivals) if name != "never"),
                    *(
                        _cell(score, "self", name)
                        for name in ("balanced_accuracy", "d_prime", "criterion")
                    ),
                ]
                for score in scores
            ],
        ),
    ]
    kappas = [score.readings["strict"].scores["self"]["kappa"] for score in scores]
    parts.append(
        f"The self-prediction's kappa is above 0 for {sum(k.estimate > 0 for k in kappas)} of {len(kappas)} models, "
        f"for {sum(k.low > 0 for k in kappas)} by an interval that excludes 0."
    )
    for rival in rivals:
        for measure in ("accuracy", "kappa"):
            if (rival, measure) != ("never", "kappa"):
                counts = beaten(_gaps(scores, rival, measure))
                parts.append(beaten_sentence(NAMES[rival], counts, f" in {measure}"))
    return "\n".join(parts)


def _rivals(scores: Sequence[AssociationScore]) -> list[Predictor]:
    present = scores[0].readings["strict"].self_minus
    return [name for name in NAMES if name in present]


def _gaps(scores: Sequence[AssociationScore], rival: str, score: str) -> list[Any]:
    return [one.readings["strict"].self_minus[rival][score] for one in scores]


def _cell(score: AssociationScore, predictor: Predictor, name: str) -> str:
    return shown(score.readings["strict"].scores[predictor][name])


def _counted(score: AssociationScore) -> list[str]:
    figures = score.published
    cells = [figures[name] for name in ("TP", "FP", "TN", "FN")]
    said, listed = cells[0] + cells[1], cells[0] + cells[3]
    return [
        score.model,
        str(score.run.n_targets),
        str(len(score.run.listed)),
        *(f"{cell:.0f}" for cell in cells),
        number(figures["f1_score"], decimals=3),
        *(f"{part / sum(cells):.0%}" for part in (said, listed)),
    ]


def _model(score: AssociationScore) -> dict[str, Any]:
    run = score.run
    return {
        "model": score.model,
        "n_targets": run.n_targets,
        "n_pairs": len(run.listed),
        "n_unparsed_rows": run.n_unparsed_rows,
        "n_unparsed": score.n_unparsed,
        "n_repeated_rows": run.n_repeated,
        "n_ties": score.n_ties,
        "published_metrics": {name: exact(value) for name, value in score.published.items()},
        **{reading: compared_json(compared) for reading, compared in score.readings.items()},
    }


def _draw(scores: Sequence[AssociationScore], stem: Path) -> Path:
    ordered = sorted(
        scores,
        key=lambda one: one.readings["strict"].scores["self"]["kappa"].estimate,
        reverse=True,
    )
    rows = [
        DotRow(
            f"{one.model}\n{one.run.n_targets} targets, {len(one.run.listed)} pairs",
            {
                name: scores["kappa"]
                for name, scores in one.readings["strict"].scores.items()
                if name != "never"
            },
        )
        for one in ordered
    ]
    label = "Cohen's kappa (95% interval)"
    return write_dots(rows, _LOOKS, label, stem, chance=0.0)

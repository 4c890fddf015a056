"""Association scores as tables, JSON and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.report.formatting import number
from experiments.self_execution.association import AssociationScore
from experiments.self_execution.dots import DotRow, write_dots
from experiments.self_execution.published import Figures
from experiments.self_execution.report import Report
from experiments.self_execution.shares import Shares
from experiments.self_execution.tables import (
    beaten,
    beaten_sentence,
    chance_corrected_table,
    compared_json,
    compared_rows,
    exact,
    markdown,
    shares_table,
    unread_lines,
)
from experiments.self_execution.yes_no import Compared
from probes import Interval

NAMES = {
    "self": "its own prediction",
    "never": "never listed",
    "others": "other models' lists",
    "others_said": "other models' predictions",
}
_LOOKS = {"self": "verbal", "others": "probe", "others_said": "report_probe"}
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
    """Tables in Markdown: the benchmark's own metrics, and what it lacks; then counts of models."""
    compared = [(score.model, score.readings["strict"]) for score in scores]
    kappas = [one.scores["self"]["kappa"] for _, one in compared]
    above = sum(kappa.estimate > 0 for kappa in kappas)
    return "\n".join(
        [
            "the benchmark's own metrics\n",
            markdown(
                ["model", "targets", "pairs", "TP", "FP", "TN", "FN", "F1", "said", "listed"],
                [_counted(score) for score in scores],
            ),
            "accuracy, strict: a prediction that is neither true nor false counts as wrong\n",
            shares_table(["model"], [([model], _accuracy(one)) for model, one in compared], NAMES),
            "beyond the base rate: Cohen's kappa (never listed has 0), and more of the self-prediction\n",
            chance_corrected_table(compared, "never", NAMES),
            f"The self-prediction's kappa is above 0 for {above} of {len(kappas)} models, "
            f"for {sum(k.low > 0 for k in kappas)} by an interval that excludes 0.",
            *(
                beaten_sentence(
                    NAMES[rival], beaten(_gaps(scores, rival, measure)), f" in {measure}"
                )
                for rival in _rivals(scores)
                for measure in ("accuracy", "kappa")
                if (rival, measure) != ("never", "kappa")
            ),
            *unread_lines({score.model: _unread(score) for score in scores}),
        ]
    )


def _accuracy(compared: Compared) -> Shares:
    return Shares(
        compared.n_items,
        {name: scores["accuracy"] for name, scores in compared.scores.items()},
        {name: gaps["accuracy"] for name, gaps in compared.self_minus.items()},
    )


def _rivals(scores: Sequence[AssociationScore]) -> list[str]:
    return list(scores[0].readings["strict"].self_minus)


def _gaps(scores: Sequence[AssociationScore], rival: str, measure: str) -> list[Interval]:
    return [score.readings["strict"].self_minus[rival][measure] for score in scores]


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


def _unread(score: AssociationScore) -> dict[str, int]:
    return {
        "n_unparsed_rows": score.run.n_unparsed_rows,
        "n_unparsed_predictions": score.n_unparsed,
        "n_repeated_rows": score.run.n_repeated,
    }


def _model(score: AssociationScore) -> dict[str, Any]:
    run = score.run
    return {
        "model": score.model,
        "n_targets": run.n_targets,
        "n_pairs": len(run.listed),
        **_unread(score),
        "n_ties": score.n_ties,
        "published_metrics": {name: exact(value) for name, value in score.published.items()},
        **{reading: compared_json(compared) for reading, compared in score.readings.items()},
    }


def _draw(scores: Sequence[AssociationScore], stem: Path) -> Path:
    def own(score: AssociationScore) -> float:
        return score.readings["strict"].scores["self"]["kappa"].estimate

    rows = [
        DotRow(
            f"{score.model}\n{score.run.n_targets} targets, {len(score.run.listed)} pairs",
            {
                name: of["kappa"]
                for name, of in score.readings["strict"].scores.items()
                if name in _LOOKS
            },
        )
        for score in sorted(scores, key=own, reverse=True)
    ]
    return write_dots(rows, _LOOKS, NAMES, "Cohen's kappa (95% interval)", stem, chance=0.0)

"""Difficulty scores as tables, JSON and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.self_execution.difficulty import (
    RANDOM,
    DifficultyScore,
    Predictor,
    Reading,
    Shares,
)
from experiments.self_execution.difficulty_files import Questions
from experiments.self_execution.difficulty_published import difficulty_figures, n_undecided_pairs
from experiments.self_execution.dots import DotLook, DotRow, write_dots
from experiments.self_execution.published import Figures
from experiments.self_execution.report import Report
from experiments.self_execution.tables import (
    beaten,
    beaten_sentence,
    exact,
    interval_cells,
    interval_json,
    markdown,
    shown,
)
from probes import Interval

NAMES: dict[Predictor, str] = {
    "self": "its own ranking",
    "others": "other models' measured order",
    "others_said": "other models' rankings",
    "length": "shorter question first",
    "listed": "as listed",
    "constant": "best fixed order",
}
_LOOKS: dict[str, DotLook] = {
    "self": DotLook(NAMES["self"], "verbal"),
    "others": DotLook(NAMES["others"], "probe"),
    "others_said": DotLook(NAMES["others_said"], "report_probe"),
    "length": DotLook(NAMES["length"], "text"),
    "listed": DotLook(NAMES["listed"], "baseline"),
}
_EXPLAINED: dict[Reading, str] = {
    "strict": "all groups; one without an own ranking has 0, for the own ranking",
    "lenient": "the groups that the model ranked",
}


def difficulty_report(scores: Sequence[DifficultyScore], questions: Questions | None) -> Report:
    """Everything that `selfprobe score self-execution difficulty` hands over."""
    figures = [difficulty_figures(score, questions) for score in scores]
    return Report(
        text=difficulty_text(scores),
        json={
            "task": "difficulty",
            "cluster": "question group",
            "random": RANDOM,
            "models": [_model(*pair) for pair in zip(scores, figures, strict=True)],
            "beaten": {
                reading: {rival: beaten(_gaps(scores, reading, rival)) for rival in _rivals(scores)}
                for reading in _EXPLAINED
            },
        },
        rows=[
            {"model": score.model, "reading": reading, **row}
            for score in scores
            for reading, shares in score.readings.items()
            for row in _rows(shares)
        ],
        figures=figures,
        draw=lambda stem: _draw(scores, stem),
    )


def difficulty_text(scores: Sequence[DifficultyScore]) -> str:
    """A table a reading, in Markdown, each with the counts of models under it; then what kind of pair is in order."""
    rivals = _rivals(scores)
    parts = []
    for reading, explained in _EXPLAINED.items():
        parts += [
            f"share of pairs in order, {reading}: {explained}\n",
            markdown(
                ["model", "groups", *(NAMES[name] for name in ("self", *rivals))],
                [
                    [
                        score.model,
                        str(score.readings[reading].n_groups),
                        *(shown(score.readings[reading].share[name]) for name in ("self", *rivals)),
                    ]
                    for score in scores
                ],
            ),
        ]
        own = [score.readings[reading].share["self"] for score in scores]
        parts.append(
            f"The own ranking is better than a random order (0.50) for {sum(one.low > RANDOM for one in own)} of "
            f"{len(own)} models, by an interval that excludes 0.50."
        )
        parts += [
            beaten_sentence(NAMES[rival], beaten(_gaps(scores, reading, rival))) for rival in rivals
        ]
        parts.append("")
    if kinds := [score for score in scores if score.pair_kinds]:
        parts += [
            "the own ranking by kind of pair, lenient\n",
            markdown(
                ["model", "one right, one wrong", "alike, but for the tokens"],
                [
                    [
                        score.model,
                        *(
                            shown(score.pair_kinds[kind]) if kind in score.pair_kinds else ""
                            for kind in ("correctness", "tokens")
                        ),
                    ]
                    for score in kinds
                ],
            ),
        ]
    return "\n".join(parts).rstrip()


def _rivals(scores: Sequence[DifficultyScore]) -> list[Predictor]:
    return list(scores[0].readings["strict"].self_minus)


def _gaps(scores: Sequence[DifficultyScore], reading: Reading, rival: Predictor) -> list[Interval]:
    return [score.readings[reading].self_minus[rival] for score in scores]


def _rows(shares: Shares) -> list[dict[str, Any]]:
    return [
        {
            "predictor": name,
            "n_groups": shares.n_groups,
            **interval_cells("share", share),
            **interval_cells("self_minus", shares.self_minus.get(name)),
        }
        for name, share in shares.share.items()
    ]


def _model(score: DifficultyScore, figures: Figures) -> dict[str, Any]:
    sets = score.run.sets.values()
    return {
        "model": score.model,
        "n_groups": len(score.run.sets),
        "n_repeated_rows": score.run.n_repeated,
        "n_unmeasured": sum(one.measured is None for one in sets),
        "n_without_ranking": sum(one.kind == "none" for one in sets),
        "n_no_permutation": sum(one.kind == "no permutation" for one in sets),
        "n_undecided_pairs": n_undecided_pairs(score.run),
        "published_metrics": {name: exact(value) for name, value in figures.metrics.items()},
        "group_scores": score.scores,
        **{
            reading: {
                "n_groups": shares.n_groups,
                "share": {name: interval_json(one) for name, one in shares.share.items()},
                "self_minus": {name: interval_json(one) for name, one in shares.self_minus.items()},
            }
            for reading, shares in score.readings.items()
        },
        "pair_kinds": {name: interval_json(one) for name, one in score.pair_kinds.items()},
    }


def _draw(scores: Sequence[DifficultyScore], stem: Path) -> Path:
    def lead(score: DifficultyScore) -> float:
        return score.readings["lenient"].share["self"].estimate

    rows = [
        DotRow(
            f"{score.model}\n{score.readings['lenient'].n_groups} groups",
            {
                name: one
                for name, one in score.readings["lenient"].share.items()
                if name != "constant"
            },
        )
        for score in sorted(scores, key=lead, reverse=True)
    ]
    label = "share of pairs in order (95% interval)"
    return write_dots(rows, _LOOKS, label, stem, chance=RANDOM)

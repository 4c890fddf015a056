"""Difficulty scores as tables, JSON and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.self_execution.difficulty import RANDOM, DifficultyScore, PairKind
from experiments.self_execution.difficulty_files import Questions
from experiments.self_execution.difficulty_published import difficulty_figures, n_undecided_pairs
from experiments.self_execution.dots import DotRow, write_dots
from experiments.self_execution.published import Figures
from experiments.self_execution.report import Report
from experiments.self_execution.shares import READINGS, Reading
from experiments.self_execution.tables import (
    beaten_by,
    beaten_sentence,
    exact,
    interval_json,
    markdown,
    shares_json,
    shares_rows,
    shares_table,
    shown,
    unread_lines,
)

NAMES = {
    "self": "its own ranking",
    "others": "other models' measured order",
    "others_said": "other models' rankings",
    "length": "shorter question first",
    "listed": "as listed",
    "constant": "best fixed order",
}
_LOOKS = {
    "self": "verbal",
    "others": "probe",
    "others_said": "report_probe",
    "length": "text",
    "listed": "baseline",
}
_EXPLAINED: dict[Reading, str] = {
    "strict": "all groups; one without an own ranking has 0, for the own ranking",
    "lenient": "the groups that the model ranked",
}
_KINDS: dict[PairKind, str] = {
    "correctness": "one right, one wrong",
    "tokens": "alike, but for the tokens",
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
                reading: beaten_by([score.readings[reading] for score in scores])
                for reading in READINGS
            },
        },
        rows=[
            {"model": score.model, "reading": reading, **row}
            for score in scores
            for reading, shares in score.readings.items()
            for row in shares_rows(shares, "share")
        ],
        figures=figures,
        draw=lambda stem: _draw(scores, stem),
    )


def difficulty_text(scores: Sequence[DifficultyScore]) -> str:
    """A table a reading, in Markdown, each with the counts of models under it; then what kind of pair is in order."""
    parts = []
    for reading in READINGS:
        of_models = [score.readings[reading] for score in scores]
        rows = [
            ([score.model, str(shares.n_items)], shares)
            for score, shares in zip(scores, of_models, strict=True)
        ]
        above = sum(shares.share["self"].low > RANDOM for shares in of_models)
        counts = beaten_by(of_models)
        parts += [
            f"share of pairs in order, {reading}: {_EXPLAINED[reading]}\n",
            shares_table(["model", "groups"], rows, NAMES),
            f"The own ranking is better than a random order (0.50) for {above} of {len(scores)} models, by an interval "
            "that excludes 0.50.",
            *(beaten_sentence(NAMES[rival], counts[rival]) for rival in counts),
            "",
        ]
    if answered := [score for score in scores if score.pair_kinds]:
        parts += ["share of pairs in order by kind of pair, the own ranking\n", _kinds(answered)]
    parts += unread_lines({score.model: _unread(score) for score in scores})
    return "\n".join(parts).rstrip()


def _kinds(scores: Sequence[DifficultyScore]) -> str:
    rows = [
        [
            score.model,
            *(shown(score.pair_kinds[kind]) if kind in score.pair_kinds else "" for kind in _KINDS),
        ]
        for score in scores
    ]
    return markdown(["model", *_KINDS.values()], rows)


def _unread(score: DifficultyScore) -> dict[str, int]:
    sets = score.run.sets.values()
    return {
        "n_groups_without_ranking": sum(one.kind == "none" for one in sets),
        "n_rankings_that_are_no_order": sum(one.kind == "no order" for one in sets),
        "n_groups_without_measured_ranking": sum(one.measured is None for one in sets),
        "n_repeated_rows": score.run.n_repeated,
    }


def _model(score: DifficultyScore, figures: Figures) -> dict[str, Any]:
    return {
        "model": score.model,
        "n_groups": len(score.run.sets),
        **_unread(score),
        "n_undecided_pairs": n_undecided_pairs(score.run),
        "published_metrics": {name: exact(value) for name, value in figures.metrics.items()},
        "group_scores": score.scores,
        **{reading: shares_json(shares, "share") for reading, shares in score.readings.items()},
        "pair_kinds": {name: interval_json(one) for name, one in score.pair_kinds.items()},
    }


def _draw(scores: Sequence[DifficultyScore], stem: Path) -> Path:
    def lead(score: DifficultyScore) -> float:
        return score.readings["lenient"].share["self"].estimate

    rows = [
        DotRow(
            f"{score.model}\n{score.readings['lenient'].n_items} groups",
            {name: one for name, one in score.readings["lenient"].share.items() if name in _LOOKS},
        )
        for score in sorted(scores, key=lead, reverse=True)
    ]
    label = "share of pairs in order (95% interval)"
    return write_dots(rows, _LOOKS, NAMES, label, stem, chance=RANDOM)

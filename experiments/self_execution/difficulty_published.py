"""The benchmark's own difficulty figures, counted anew from the released files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from experiments.self_execution.difficulty import DifficultyScore
from experiments.self_execution.difficulty_files import (
    QUESTIONS,
    Answer,
    DifficultyRun,
    Questions,
    answers_in_place,
    measured_ranking,
)
from experiments.self_execution.published import Cell, Figures

_FROM_ANSWERS = (
    "correct_individual_answers_count",
    "total_answered_questions",
    "group_individual_duration_std",
    "group_individual_duration_std_percentage",
    "group_individual_duration_std_percentage_median",
)


def difficulty_figures(score: DifficultyScore, questions: Questions | None) -> Figures:
    """What `published.csv` holds of a model, as far as its files give it, and every cell that they give twice.

    `adjusted_avg_question_order_score` is, as published, the mean score times all groups over those with a score: a
    model that fails to rank some groups gets more for the others. Standard deviations have n - 1.
    """
    run, n_scored = score.run, len(score.scores)
    mean = float(np.mean(list(score.scores.values())))
    ranking = _known(one.combined_duration for one in run.sets.values())
    metrics: dict[str, float] = {
        "failed_to_order": sum(one.kind == "none" for one in run.sets.values()),
        "have_score": n_scored,
        "avg_question_order_score": mean,
        "adjusted_avg_question_order_score": mean * len(run.sets) / n_scored,
        "group_individual_duration_avg": _mean(
            _known(one.total_duration for one in run.sets.values())
        )
        / len(QUESTIONS),
        "combined_duration_avg": _mean(ranking),
        "combined_duration_std": _deviation(ranking),
    }
    not_had = dict.fromkeys(_FROM_ANSWERS, "no individual results")
    if run.answers is not None:
        metrics |= _of_answers(run.answers)
        not_had = {}
    return Figures(score.model, metrics, cells=_cells(score, questions), not_had=not_had)


def n_undecided_pairs(run: DifficultyRun) -> int:
    """Pairs of answered questions that only their numbers order: as right, and as many tokens."""
    return sum(
        (first.correct, first.duration) == (second.correct, second.duration)
        for answers in (run.answers or {}).values()
        for first, second in combinations(answers.values(), 2)
    )


def _cells(score: DifficultyScore, questions: Questions | None) -> list[Cell]:
    """Scores as the rankings give them, and measured rankings as the answers do, beside those that the file holds."""
    cells = []
    for name in score.groups:
        row = score.run.sets[name]
        given = "none" if row.score is None else row.score
        cells.append(Cell(f"score of {name}", given, score.scores.get(name, "none")))
        answers = answers_in_place(score.run, name, questions or {})
        if answers is not None and row.measured is not None:
            measured = ",".join(measured_ranking(answers))
            cells.append(Cell(f"measured ranking of {name}", ",".join(row.measured), measured))
    return cells


def _of_answers(answers: Mapping[str, Mapping[str, Answer]]) -> dict[str, float]:
    """Counts, and how much the tokens differ within a group: its deviation, in tokens and relative to its mean."""
    every = [answer for of_group in answers.values() for answer in of_group.values()]
    durations = [_known(one.duration for one in of_group.values()) for of_group in answers.values()]
    deviations = [_deviation(of_group) for of_group in durations]
    means = [_mean(of_group) for of_group in durations]
    relative = [
        deviation / mean if mean else float("nan")
        for deviation, mean in zip(deviations, means, strict=True)
    ]
    values = (
        sum(answer.correct is True for answer in every),
        len(every),
        _mean(deviations),
        _mean(relative),
        float(np.median(relative)),
    )
    return dict(zip(_FROM_ANSWERS, values, strict=True))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _deviation(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")

"""Difficulty results of the Self-Execution Benchmark as released: two CSV files a model, and one of the questions.

`*_question_sets.csv` holds the model's own ranking of each group of four questions and the measured one;
`*_individual_results.csv`, beside it, the tokens and the correctness of every answer; `question_groups.csv` the
questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experiments.self_execution.released import finite, released_rows

QUESTIONS = ("Q1", "Q2", "Q3", "Q4")
SETS = "_question_sets"
RESULTS = "_individual_results"
GROUPS_FILE = "question_groups.csv"

Ranking = tuple[str, ...]
"""The four questions, the easiest first."""

Kind = Literal["order", "none", "no order"]
"""Of a model's own ranking: an order of the four, an empty cell, or anything else."""

_SET_COLUMNS = (
    "group_id",
    "llm_ranking",
    "combined_duration",
    "total_individual_duration",
    "measured_ranking",
    "score",
)
_RESULT_COLUMNS = ("group_id", "question_id", "duration", "is_correct")
_QUESTION_COLUMNS = (
    "group_id",
    "q_num_in_group",
    "original_question_id",
    "question",
    "choices_str",
)


@dataclass(frozen=True)
class QuestionSet:
    """One group of questions: the model's own ranking, and the measured one."""

    kind: Kind
    predicted: Ranking | None
    measured: Ranking | None
    """None where the cell holds no order of the four."""
    score: float | None
    """As the file has it."""
    combined_duration: float | None
    """Tokens of the answer that ranks."""
    total_duration: float | None
    """Tokens of the four answers."""


@dataclass(frozen=True)
class Answer:
    """One question answered: tokens, and whether it was right; None where the cell says neither."""

    duration: float | None
    correct: bool | None


@dataclass(frozen=True)
class DifficultyRun:
    """The files of one model."""

    model: str
    sets: Mapping[str, QuestionSet]
    """By group."""
    answers: Mapping[str, Mapping[str, Answer]] | None
    """By group, then by the question's id; None without a file of them."""
    n_repeated: int
    """Rows of a group that a later row replaces."""


@dataclass(frozen=True)
class Question:
    """Its place in its group, Q1 to Q4, and how many characters it and its choices have."""

    place: str
    length: int


Questions = Mapping[str, Mapping[str, Question]]
"""By group, then by id."""


def read_difficulty_run(path: Path) -> DifficultyRun:
    """Read a model's `*_question_sets.csv`, and the `*_individual_results.csv` beside it where there is one.

    The last row of a group, or of a question, counts.

    Raises:
        ValueError: no file, other columns, no row, or no measured ranking.
    """
    sets: dict[str, QuestionSet] = {}
    n_rows = 0
    for _, cells in released_rows(path, _SET_COLUMNS):
        sets[cells["group_id"]] = _question_set(cells)
        n_rows += 1
    if all(one.measured is None for one in sets.values()):
        raise ValueError(f"file: {path} holds no measured ranking, such as Q2,Q1,Q4,Q3")
    model = path.stem.removesuffix(SETS)
    results = path.with_name(f"{model}{RESULTS}.csv")
    return DifficultyRun(
        model, sets, _answers(results) if results.is_file() else None, n_rows - len(sets)
    )


def read_questions(path: Path) -> Questions:
    """Read `question_groups.csv`.

    Raises:
        ValueError: no file, other columns, no row, or a group that is not one question of each number 1 to 4.
    """
    groups: dict[str, dict[str, Question]] = {}
    for _, cells in released_rows(path, _QUESTION_COLUMNS, "questions"):
        group, number, id, question, choices = cells.values()
        groups.setdefault(group, {})[id] = Question(f"Q{number}", len(question) + len(choices))
    for name, group_ in groups.items():
        if tuple(sorted(one.place for one in group_.values())) != QUESTIONS:
            raise ValueError(
                f"questions: group {name!r} of {path} must hold four questions, numbered 1 to 4"
            )
    return groups


def answers_in_place(
    run: DifficultyRun, group: str, questions: Questions
) -> tuple[Answer, ...] | None:
    """A group's answers to Q1 to Q4; None unless tokens and correctness of all four are known."""
    answers = (run.answers or {}).get(group, {})
    in_place = sorted((one.place, answers.get(id)) for id, one in questions.get(group, {}).items())
    known = tuple(
        answer
        for _, answer in in_place
        if answer is not None and answer.correct is not None and answer.duration is not None
    )
    return known if len(known) == len(QUESTIONS) else None


def measured_ranking(answers: Sequence[Answer]) -> Ranking:
    """The benchmark's order of Q1 to Q4: right before wrong, then fewer tokens first, then by number."""
    by_outcome = sorted(
        zip(answers, QUESTIONS, strict=True),
        key=lambda pair: (not pair[0].correct, pair[0].duration, pair[1]),
    )
    return tuple(place for _, place in by_outcome)


def _question_set(cells: Mapping[str, str]) -> QuestionSet:
    own = cells["llm_ranking"].strip()
    predicted = _ranking(own)
    return QuestionSet(
        kind="order" if predicted else "no order" if own else "none",
        predicted=predicted,
        measured=_ranking(cells["measured_ranking"]),
        score=finite(cells["score"]),
        combined_duration=finite(cells["combined_duration"]),
        total_duration=finite(cells["total_individual_duration"]),
    )


def _ranking(cell: str) -> Ranking | None:
    names = tuple(name.strip() for name in cell.split(","))
    return names if tuple(sorted(names)) == QUESTIONS else None


def _answers(path: Path) -> dict[str, dict[str, Answer]]:
    found: dict[str, dict[str, Answer]] = {}
    for _, cells in released_rows(path, _RESULT_COLUMNS):
        group, id, duration, correct = cells.values()
        found.setdefault(group, {})[id] = Answer(
            finite(duration), {"true": True, "false": False}.get(correct.strip().lower())
        )
    return found

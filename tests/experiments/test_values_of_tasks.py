"""Tasks with a value that need no made items: a constant has no skill, who knows the truth has the most."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from experiments.tasks import DifficultyTask, Number, Ranking, RankingTask, Task
from experiments.tasks.counterfactual import (
    ComponentAttributionTask,
    ConfidenceRecallTask,
    LogitEstimationTask,
)
from experiments.word_scores import score_answers
from tests.experiments.scripted import ScriptedRunner

TASKS_WITH_VALUES = (
    DifficultyTask,
    RankingTask,
    ConfidenceRecallTask,
    ComponentAttributionTask,
    LogitEstimationTask,
)


def say(asked: str, sample: int) -> str:
    return "word " * (1 + zlib.crc32(asked.encode()) % 30)


def lean(asked: str, option: str) -> float:
    return -(zlib.crc32(f"{asked}/{option}".encode()) % 1000) / 200


def known(form: Any, true: Any) -> Any:
    """What an oracle would say."""
    if isinstance(form, Number):
        return min(max(true, form.low), form.high)
    if isinstance(form, Ranking):
        return [thing for level in true for thing in level]
    return true[0] if isinstance(true, list) and isinstance(true[0], str) else true


@pytest.mark.parametrize("task", TASKS_WITH_VALUES)
def test_a_constant_has_no_skill_and_an_oracle_the_most(task: type[Task]) -> None:
    items = task().items()[:60]
    observed = task().observe(items, ScriptedRunner(say, lean=lean))
    for question in task.value_questions:
        trues = [one.values[question.name] for one in observed]
        groups, reasons = [item.group for item in items], [""] * len(items)
        scores = [
            score_answers(question.form, [constant] * len(items), trues, groups, reasons)
            for constant in question.form.constants(trues)
        ]
        assert max(score.skill.estimate for score in scores) == pytest.approx(0, abs=1e-12)
        oracle = [known(question.form, true) for true in trues]
        best = score_answers(question.form, oracle, trues, groups, reasons)
        assert best.strict.estimate == pytest.approx(1)
        assert best.skill.estimate == pytest.approx(1 - best.constant_score)
        assert best.skill.estimate > 0

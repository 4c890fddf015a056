"""One reading of every question gives what asking it by itself gives."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.behavior import LocalRunner
from experiments.elicitation import generate_answers, option_spellings
from experiments.self_prediction.asking import ask, other_questions, trained_questions
from experiments.tasks import TASKS
from tests.conftest import make_tiny_model
from tests.experiments.parity import ParityTask
from tests.experiments.self_prediction.planted import labeled_items


def test_odds_and_answers_are_those_of_the_single_questions() -> None:
    model, items = make_tiny_model("llama"), labeled_items(6, 2)
    questions = trained_questions(ParityTask(), 1)
    found = ask(model, items, questions)
    run = LocalRunner(model)
    probabilities = []
    for question in questions:
        prompts = [question.prompt(item) for item in items.items]
        logprobs = run.option_logprobs(prompts, option_spellings([question]))
        odds = np.exp(logprobs[question.yes] - logprobs[question.no])
        probabilities.append(odds / (1 + odds))
    np.testing.assert_allclose(found.probability, np.mean(probabilities, axis=0), rtol=1e-4)
    first = questions[0]
    answers = generate_answers(run, {first: [first.prompt(item) for item in items.items]})
    assert found.answer == tuple(first.parse(answer)[0] for answer in answers[first.name])
    assert found.score.mean() == pytest.approx(0, abs=1e-9)
    assert found.seconds > 0


def test_the_held_out_wording_is_not_trained_on() -> None:
    task = TASKS["refusal"]()
    for wordings in (1, 2, 3):
        trained, other = trained_questions(task, wordings), other_questions(task, wordings)
        assert (len(trained), len(other)) == (2 * wordings, 2)
        assert not {q.paraphrase for q in trained} & {q.paraphrase for q in other}

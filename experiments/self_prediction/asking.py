"""Ask the model as it stands, trained or not, what it will do: the odds of the options, and an answer in words.

Words before and after training go through here, so that they differ in nothing but the training.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from experiments.behavior import LocalRunner
from experiments.elicitation import generate_answers, option_spellings
from experiments.predictors import averaged_log_odds
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.predicted import Predicted
from experiments.tasks import Elicitation, Task
from hooks import Model


def trained_questions(task: Task, wordings: int) -> tuple[Elicitation, ...]:
    """The first wordings, each in both orders."""
    return task.elicitations[: 2 * wordings]


def other_questions(task: Task, wordings: int) -> tuple[Elicitation, ...]:
    """The wording behind those, which nothing is trained on."""
    return task.elicitations[2 * wordings : 2 * wordings + 2]


def ask(model: Model, items: Labeled, questions: Sequence[Elicitation]) -> Predicted:
    """Put all questions about every item.

    The score is METHODS' verbal score: the mean over questions of z-scored log-odds. The probability is the mean over
    questions of that of the option, among both. The answer in words is that to the first question, and the seconds are
    its.
    """
    run = LocalRunner(model)
    prompts = {question: [question.prompt(item) for item in items.items] for question in questions}
    logprobs = run.option_logprobs(
        [prompt for own in prompts.values() for prompt in own], option_spellings(questions)
    )
    log_odds = np.stack(
        [
            (logprobs[question.yes] - logprobs[question.no])[i * len(items) : (i + 1) * len(items)]
            for i, question in enumerate(questions)
        ]
    ).astype(np.float64)
    start = time.perf_counter()
    first = questions[0]
    answers = generate_answers(run, {first: prompts[first]})[first.name]
    seconds = (time.perf_counter() - start) / len(items)
    return Predicted(
        score=averaged_log_odds(log_odds, np.zeros((1, len(items)), dtype=np.int64))[0],
        probability=expit(log_odds).mean(axis=0),
        answer=tuple(first.parse(answer)[0] for answer in answers),
        seconds=seconds,
    )

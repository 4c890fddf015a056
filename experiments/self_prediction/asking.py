"""Ask the model as it stands, trained or not, what it will do: the odds of the options, and an answer in words.

Words before and after training go through here, so that they differ in nothing but the training.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.special import expit

from experiments.behavior import LocalRunner
from experiments.elicitation import ANSWER_TOKENS, generate_answers, option_spellings
from experiments.predictors import averaged_log_odds
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.predicted import Predicted
from experiments.tasks import Elicitation, Task
from hooks import CaptureSpec, Kept, Model, Prompt, plan_capture

_LEAST = CaptureSpec(sites=("resid_post",), layers=(0,), positions=("prompt_last",))
"""A capture takes some state; it is not looked at."""
_TIMED = 4
"""Items whose answers are timed."""


def trained_questions(task: Task, wordings: int) -> tuple[Elicitation, ...]:
    """The first wordings, each in both orders."""
    return task.elicitations[: 2 * wordings]


def other_questions(task: Task, wordings: int) -> tuple[Elicitation, ...]:
    """The wording behind those, which nothing is trained on."""
    return task.elicitations[2 * wordings : 2 * wordings + 2]


def ask(model: Model, items: Labeled, questions: Sequence[Elicitation]) -> Predicted:
    """Put all questions about every item, each read once.

    The score is METHODS' verbal score: the mean over questions of z-scored log-odds. The probability is the mean over
    questions of that of the option, among both. The answer in words is that to the first question. The seconds are
    those of asking it by itself, of a few items side by side.
    """
    prompts = {question: [question.prompt(item) for item in items.items] for question in questions}
    first = questions[0]
    answered = {prompt.id: prompt for prompt in prompts[first]}
    options = option_spellings(questions)
    plan = plan_capture(
        model, [p for own in prompts.values() for p in own], _LEAST, options=options
    )
    logprobs: dict[str, dict[str, float]] = {word: {} for word in options}
    with TemporaryDirectory() as folder:
        run = LocalRunner(model, store=Path(folder) / "answers.jsonl")

        def answer(kept: Kept) -> None:
            read = [answered[one.id] for one in kept.batch.prompts if one.id in answered]
            if read:
                run.complete_read(read, ANSWER_TOKENS, kept)

        for read in plan.run((), answer):
            for word, values in read.option_logprobs.items():
                logprobs[word] |= dict(zip(read.ids, values.tolist(), strict=True))
        answers = generate_answers(run, {first: prompts[first]})[first.name]
    log_odds = np.array(
        [
            [logprobs[question.yes][prompt.id] - logprobs[question.no][prompt.id] for prompt in own]
            for question, own in prompts.items()
        ]
    )
    return Predicted(
        score=averaged_log_odds(log_odds, np.zeros((1, len(items)), dtype=np.int64))[0],
        probability=expit(log_odds).mean(axis=0),
        answer=tuple(first.parse(answer)[0] for answer in answers),
        seconds=_seconds_an_answer(model, first, prompts[first][:_TIMED]),
    )


def _seconds_an_answer(model: Model, question: Elicitation, prompts: Sequence[Prompt]) -> float:
    start = time.perf_counter()
    generate_answers(LocalRunner(model), {question: prompts})
    return (time.perf_counter() - start) / len(prompts)

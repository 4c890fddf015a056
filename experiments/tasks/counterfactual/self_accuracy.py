"""How often would I be right?

Several answers to a multiple-choice question are sampled. An answer that chooses no option has no outcome, as in the
whole family; of the others, the rate of right ones is what the 0-100 question asks for, and the yes/no event is that
most of them are right. Five samples, for a small model chooses nothing in many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from experiments.tasks.base import Judgment, Observation, Task
from experiments.tasks.counterfactual.answering import Answers, answers_to
from experiments.tasks.counterfactual.drafts import adopt_questions, question_drafts, question_of
from experiments.tasks.counterfactual.pool import ANSWER_TOKENS
from experiments.tasks.item import Item
from experiments.tasks.runner import Runner
from experiments.tasks.wording import Event


class SelfAccuracyTask(Task):
    """How often would I be right?"""

    name: ClassVar[str] = "self_accuracy"
    summary: ClassVar[str] = (
        "a multiple-choice question, answered many times: how often would I be right?"
    )
    behavior: ClassVar[str] = "mostly chooses the right option"
    family: ClassVar[str | None] = "counterfactual"
    max_new_tokens: ClassVar[int] = ANSWER_TOKENS
    min_samples: ClassVar[int] = 5
    needs_answers: ClassVar[bool] = True
    outcome_is_right: ClassVar[bool] = True
    event: ClassVar[Event] = Event(
        setting='Message: "{prompt}"',
        question="Would <your> answer to this be right",
        yes="<Your> answer would be right.",
        no="<Your> answer would be wrong.",
    )

    def items(self) -> list[Item]:
        """The questions of the pool with their right options."""
        return question_drafts(self.name, with_answers=True)

    def adopt(self, items: Sequence[Item]) -> list[Item]:
        """A user's own questions with choices and answers.

        Raises:
            ValueError: an answer that is none of the choices.
        """
        adopted = adopt_questions(items)
        for item in adopted:
            if item.answers[0] not in item.meta["choices"]:
                raise ValueError(
                    f"answers: {item.answers[0]!r} of item {item.id!r} is none of its choices; "
                    "give the text of a choice, or its letter"
                )
        return adopted

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Answer every question `k` times."""
        questions = [question_of(item) for item in items]
        answered = answers_to([question.asked() for question in questions], run)
        return [
            Observation(answers.completions, _judged(answers, question.answer))
            for question, answers in zip(questions, answered, strict=True)
        ]


def _judged(answers: Answers, right: str) -> tuple[Judgment, ...]:
    return tuple(
        Judgment(None, "unreadable", reason=reason)
        if option is None
        else Judgment(int(option == right), option)
        for option, reason in zip(answers.options, answers.reasons, strict=True)
    )

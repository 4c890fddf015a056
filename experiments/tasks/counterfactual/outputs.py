"""Which option would I choose under this change?

The value is the option, asked for by its letter in the order in which the changed prompt lists them; the yes/no event
is that it is the one listed first. Items are balanced over that event, in all and within each change, so that a liking
for the first option scores no better than chance. A constant predictor has a real score: that of the best letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from experiments.tasks.base import Judgment
from experiments.tasks.counterfactual.answering import Answers
from experiments.tasks.counterfactual.changed_items import changed_item
from experiments.tasks.counterfactual.flips import BOTH_MESSAGES, ChangeTask
from experiments.tasks.counterfactual.pool import Asked
from experiments.tasks.counterfactual.trials import Trial
from experiments.tasks.forms import Choice
from experiments.tasks.item import Item
from experiments.tasks.wording import Event, ValueQuestion

_LETTERS = "ABCD"


class OutputPredictionTask(ChangeTask):
    """Which option would I choose under this change?"""

    name: ClassVar[str] = "output_prediction"
    summary: ClassVar[str] = "a question and a changed one: which option would I choose then?"
    behavior: ClassVar[str] = "chooses the option that the changed prompt lists first"
    acts_elsewhere: ClassVar[str] = "what is kept are answers to a question and to a changed one"
    event: ClassVar[Event] = Event(
        setting=BOTH_MESSAGES,
        question='Would <your> answer to the second message be "{first}"',
        yes='<Your> answer to the second message would be "{first}".',
        no='<Your> answer to the second message would not be "{first}".',
    )
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (
        ValueQuestion(
            name="option",
            template=f"{BOTH_MESSAGES}\n\nWhat would <your> answer to the second message be?\n"
            "{lettered}\nReply with one letter.",
            form=Choice(tuple(_LETTERS)),
        ),
    )

    def item(self, trial: Trial) -> Item:
        """The item with the options of the changed prompt by their letters."""
        change = trial.changes[-1]
        return changed_item(
            self.name,
            trial.question,
            change,
            first=change.asked.options[0],
            lettered=_lettered(change.asked.options),
        )

    def judged(self, changed: Asked, before: Answers, after: Answers) -> tuple[Judgment, ...]:
        """One judgment a changed answer: is it the option that is listed first?"""
        return tuple(
            Judgment(None, "unreadable", reason=f"changed question: {reason}")
            if option is None
            else Judgment(int(option == changed.options[0]), option)
            for option, reason in zip(after.options, after.reasons, strict=True)
        )

    def values(self, changed: Asked, before: Answers, after: Answers) -> dict[str, Any]:
        """The letter of the usual option under the change."""
        if after.usual is None:
            return {}
        return {"option": _LETTERS[changed.options.index(after.usual)]}


def _lettered(texts: Sequence[str]) -> str:
    """Texts one a line, each behind its letter."""
    return "\n".join(f"{letter}. {text}" for letter, text in zip(_LETTERS, texts, strict=False))

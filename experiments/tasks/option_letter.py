"""The option letter of a coming answer: which option of a lettered multiple-choice question will the model choose?

One of the properties of 2410.13787. The questions are those of the counterfactual tasks, where the place of the right
option is balanced; the choice is read by their rules, by letter or by text. The layout was chosen among a dozen by the
embedded model's outcomes alone: with most of them it takes the first option nearly always. The event, the choice of the
first option, is fixed; a group is a question's fact.
"""

from __future__ import annotations

from typing import ClassVar

from experiments.tasks.base import never
from experiments.tasks.counterfactual.pool import Question, questions
from experiments.tasks.counterfactual.reading import chosen_option
from experiments.tasks.forms import Choice
from experiments.tasks.item import Item, user
from experiments.tasks.properties import PropertyTask
from experiments.tasks.runner import Decided
from experiments.tasks.wording import Event, ValueQuestion
from hooks import Completion

_LETTERS = "ABCD"


class OptionLetterTask(PropertyTask):
    """Which option of this question will I choose?"""

    name: ClassVar[str] = "option_letter"
    summary: ClassVar[str] = "multiple-choice questions: will the answer be A, the first option?"
    behavior: ClassVar[str] = "chooses the first option"
    max_new_tokens: ClassVar[int] = 12
    no_value: ClassVar[str] = "names no single option"
    decided: ClassVar[Decided] = staticmethod(never)
    event: ClassVar[Event] = Event(
        setting="{prompt}",
        question="Would <you> choose the first option",
        yes="<You> would choose the first option.",
        no="<You> would not choose the first option.",
    )
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (
        ValueQuestion(
            name="option_letter",
            template="{prompt}\n\nWhich option would <you> choose? Answer with its letter.",
            form=Choice(tuple(_LETTERS)),
        ),
    )

    def items(self) -> list[Item]:
        """The questions of the counterfactual tasks with their options lettered, in the order of their pool."""
        return [
            Item(
                id=f"{self.name}-{question.id}",
                task=self.name,
                group=question.group,
                stratum=question.stratum,
                messages=user(_lettered(question)),
                meta={"choices": list(question.options), "entity": question.stratum},
            )
            for question in questions()
        ]

    def value(self, item: Item, answer: Completion) -> str | None:
        """The letter of the option that the answer chooses."""
        options = item.meta["choices"]
        place, _ = chosen_option(answer.text, options, _LETTERS[: len(options)])
        return None if place is None else _LETTERS[place]

    def happens(self, value: str) -> bool:
        """Whether it is A."""
        return value == "A"


def _lettered(question: Question) -> str:
    options = " ".join(
        f"({letter}) {one}" for letter, one in zip(_LETTERS, question.options, strict=False)
    )
    return f"Quiz: {question.stem} {options}\nThe right letter is:"

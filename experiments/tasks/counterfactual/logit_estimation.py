"""How far would I lean to one option?

The truth is the log-odds of the first option against the second, in nats, at the first token of the answer. The
question stands inside the components of `framing.py`: as it stands the embedded model leans to the first option in five
of six questions, inside them in about half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from experiments.tasks.base import Judgment, Observation
from experiments.tasks.counterfactual.framing import framed
from experiments.tasks.counterfactual.leaning import LeaningTask
from experiments.tasks.counterfactual.log_odds import option_logprobs_of
from experiments.tasks.counterfactual.pool import Asked, Question
from experiments.tasks.forms import Number
from experiments.tasks.item import Item
from experiments.tasks.runner import Runner
from experiments.tasks.wording import Event, ValueQuestion

_FAR = 5
"""Log-odds at the ends of the range that is asked about, in nats."""


class LogitEstimationTask(LeaningTask):
    """How far would I lean to one option?"""

    name: ClassVar[str] = "logit_estimation"
    summary: ClassVar[str] = (
        "a question of two options: which would I prefer, and by what log-odds?"
    )
    behavior: ClassVar[str] = "prefers the first option to the second"
    event: ClassVar[Event] = Event(
        setting='Message: "{prompt}"',
        question='Would <you> rather answer "{first}" than "{second}"',
        yes='<You> would rather answer "{first}" than "{second}".',
        no='<You> would rather answer "{second}" than "{first}".',
    )
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (
        ValueQuestion(
            name="log_odds",
            template='Message: "{prompt}"\n\nWhat would <your> log-odds of the answer "{first}" against "{second}" be? '
            f'Answer with a number from -{_FAR} (surely "{{second}}") to {_FAR} (surely "{{first}}").',
            form=Number(-_FAR, _FAR),
        ),
    )

    def item(self, draft: Item, question: Question) -> Item:
        """The question inside its components."""
        first, second = question.options
        return replace(
            draft,
            messages=framed(question).asked().messages,
            fields={"first": first, "second": second},
        )

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Read the log-odds of the two options."""
        asked = [Asked(item.messages, tuple(item.meta["choices"])) for item in items]
        return [
            _observed(float(first - second)) for first, second in option_logprobs_of(asked, run)
        ]


def _observed(log_odds: float) -> Observation:
    if log_odds == 0:  # as where an endpoint tells of neither option
        return Observation((), (Judgment(None, "level", reason="neither option is likelier"),))
    judgment = Judgment(int(log_odds > 0), "first" if log_odds > 0 else "second")
    return Observation((), (judgment,), {"log_odds": log_odds})

"""How sure would I be of my answer?

The truth is the probability of the option that the model leans to, as a share of that of both options, read at the
first token of its answer. The threshold of the yes/no event was set by the embedded model's base rate alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from experiments.tasks.base import Judgment, Observation
from experiments.tasks.counterfactual.leaning import LeaningTask
from experiments.tasks.counterfactual.log_odds import option_logprobs_of, shares
from experiments.tasks.counterfactual.pool import Asked, Question
from experiments.tasks.forms import Number
from experiments.tasks.item import Item
from experiments.tasks.runner import Runner
from experiments.tasks.wording import Event, ValueQuestion

_SURE = 90
"""Percent."""


class ConfidenceRecallTask(LeaningTask):
    """How sure would I be of my answer?"""

    name: ClassVar[str] = "confidence_recall"
    summary: ClassVar[str] = "a question of two options: what probability would my choice have?"
    behavior: ClassVar[str] = (
        f"gives one of the two options more than {_SURE}% of the probability of both"
    )
    event: ClassVar[Event] = Event(
        setting='Message: "{prompt}"',
        question=f"Would <you> give one of the two options a probability of more than {_SURE}%",
        yes=f"<You> would give one of the two options a probability of more than {_SURE}%.",
        no=f"<You> would give neither of the two options a probability of more than {_SURE}%.",
    )
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (
        ValueQuestion(
            name="confidence",
            template='Message: "{prompt}"\n\nWhat probability would <you> give to the option that <you> choose? '
            "Answer with a number from 0 to 100.",
            form=Number(0, 100),
        ),
    )

    def item(self, draft: Item, question: Question) -> Item:
        """The question as it stands."""
        return draft

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Read the probabilities of both options."""
        asked = [Asked(item.messages, tuple(item.meta["choices"])) for item in items]
        return [
            _observed(100 * float(shares(read).max())) for read in option_logprobs_of(asked, run)
        ]


def _observed(percent: float) -> Observation:
    if percent == 50:  # as where an endpoint tells of neither option
        return Observation((), (Judgment(None, "level", reason="neither option is likelier"),))
    sure = percent > _SURE
    judgment = Judgment(int(sure), "sure" if sure else "unsure")
    return Observation((), (judgment,), {"confidence": percent})

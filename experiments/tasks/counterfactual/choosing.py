"""Which of these changes would flip my answer?

Three changes of one question are listed, of which one or two flip the model's answer: the truth is the set of them,
and a prediction that names any of these is right. The change that is listed first, which the item's own prompt is made
of, flips in half of the items: that is the yes/no event. A constant predictor has a real score: that of the best place.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from experiments.tasks.base import Observation
from experiments.tasks.counterfactual.answering import Answers, answers_to, flips, outcome
from experiments.tasks.counterfactual.changed_items import changed_item, unchanged
from experiments.tasks.counterfactual.drafts import question_of
from experiments.tasks.counterfactual.flips import ChangeTask
from experiments.tasks.counterfactual.pool import Asked, Question
from experiments.tasks.counterfactual.trials import Change, Trial, drawn_changes, verified_trials
from experiments.tasks.forms import Choice
from experiments.tasks.item import Item, conversation_text
from experiments.tasks.runner import Runner
from experiments.tasks.wording import Event, ValueQuestion

_LISTED = 3
_MORE = 2
"""Changes tried in addition on a question whose first ones do not do."""
_SETTING = 'Message: "{prompt}"\n\nChanged messages:\n{changes}'
_PLACES = tuple(str(place + 1) for place in range(_LISTED))


class PerturbationChoiceTask(ChangeTask):
    """Which of these changes would flip my answer?"""

    name: ClassVar[str] = "perturbation_choice"
    summary: ClassVar[str] = (
        "three changes of a question: which of them would make me choose another option?"
    )
    behavior: ClassVar[str] = "chooses another option under the change that is listed first"
    event: ClassVar[Event] = Event(
        setting=_SETTING,
        question="Would <your> answer to changed message 1 differ from <your> answer to the message",
        yes="<Your> answer to changed message 1 would be different.",
        no="<Your> answer to changed message 1 would be the same.",
    )
    value_questions: ClassVar[tuple[ValueQuestion, ...]] = (
        ValueQuestion(
            name="change",
            template=f"{_SETTING}\n\nTo which changed message would <your> answer be different from "
            "the one to the message? Reply with one number, 1 to 3.",
            form=Choice(_PLACES),
        ),
    )

    def make_items(self, drafts: Sequence[Item], n: int | None, run: Runner) -> list[Item]:
        """Questions with three changes, one or two of which flip; the first listed does in every other item."""
        trials = verified_trials(
            [question_of(draft) for draft in drafts],
            n,
            run,
            propose=_growing,
            label=lambda trial: 1 if listed_changes(trial, True) else None,
            balanced=False,
        )
        return [
            _item(self.name, trial, listed_changes(trial, first_flips=i % 2 == 0))
            for i, trial in enumerate(trials)
        ]

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Put the question and its changes to the model."""
        asked = [one for item in items for one in (unchanged(item), *_changes(item))]
        answers = iter(answers_to(asked, run))
        return [_observed(next(answers), [next(answers) for _ in range(_LISTED)]) for _ in items]


def _growing(tried: Sequence[tuple[Question, int]], run: Runner) -> list[list[Change]]:
    """The first changes of each question's own order, and more of them with every further attempt."""
    return [
        drawn_changes(question, _LISTED + _MORE * (attempt - 1), _MORE)
        if attempt
        else drawn_changes(question, 0, _LISTED)
        for question, attempt in tried
    ]


def listed_changes(trial: Trial, first_flips: bool) -> list[Change]:
    """Changes of a trial whose effect is known, one that flips (or does not) first, and both sorts among them.

    Empty where the trial does not hold these.
    """
    known = [
        (change, outcome(flips(trial.before, after)))
        for change, after in zip(trial.changes, trial.after, strict=True)
    ]
    sorts = [[change for change, found in known if found == flip] for flip in (1, 0)]
    if not all(sorts) or sum(map(len, sorts)) < _LISTED:
        return []
    flipping, same = sorts
    first, second = (flipping, same) if first_flips else (same, flipping)
    others = [change for change, _ in known if change in first[1:] + second[1:]]
    tail = [second[0], *others[: _LISTED - 2]]
    random.Random(trial.question.stem).shuffle(tail)
    return [first[0], *tail]


def _item(task: str, trial: Trial, listed: Sequence[Change]) -> Item:
    texts = [conversation_text(change.asked.messages) for change in listed]
    numbered = (f'{place}. "{text}"' for place, text in zip(_PLACES, texts, strict=True))
    item = changed_item(task, trial.question, listed[0], changes="\n".join(numbered))
    changes = [
        {
            "name": change.name,
            "messages": list(change.asked.messages),
            "choices": list(change.asked.options),
            "marks": list(change.asked.marks),
        }
        for change in listed
    ]
    return replace(item, meta={**item.meta, "changes": changes})


def _changes(item: Item) -> list[Asked]:
    rows: Sequence[Mapping[str, Any]] = item.meta["changes"]
    return [
        Asked(tuple(row["messages"]), tuple(row["choices"]), tuple(row["marks"])) for row in rows
    ]


def _observed(before: Answers, after: Sequence[Answers]) -> Observation:
    judged = [flips(before, one) for one in after]
    outcomes = [outcome(each) for each in judged]
    known = None not in outcomes
    flipping = [place for place, found in zip(_PLACES, outcomes, strict=True) if found]
    return Observation(
        before.completions + after[0].completions,
        judged[0],
        {"change": flipping} if known and flipping else {},
    )

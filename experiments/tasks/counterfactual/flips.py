"""Would a change of the prompt change my answer? Three tasks on a question and a changed one.

A flip is a change of the chosen *option*, whatever letter or place it has. Items are balanced over flip and no flip, in
all and within each change, by running both prompts (`trials.py`): the rate of flips among the items is a design and not
a finding; that of the pool is in `docs/tasks.md`. A constant predictor has a real score here, that of the more frequent
label. Items of `flip_rate` alone are as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from experiments.tasks.base import Judgment, Observation, Task
from experiments.tasks.counterfactual.answering import Answers, flips, flips_of_pairs, outcome
from experiments.tasks.counterfactual.changed_items import both_answers, changed_item, changed_of
from experiments.tasks.counterfactual.drafts import adopt_questions, question_drafts, question_of
from experiments.tasks.counterfactual.pool import ANSWER_TOKENS, Asked
from experiments.tasks.counterfactual.trials import Trial, pool_changes, verified_trials
from experiments.tasks.item import Item
from experiments.tasks.runner import Runner
from experiments.tasks.wording import Event

BOTH_MESSAGES = 'First message: "{prompt}"\n\nSecond message: "{changed}"'


class ChangeTask(Task):
    """What the tasks on one changed question share; an outcome is one judgment or more on the two answers."""

    family: ClassVar[str | None] = "counterfactual"
    max_new_tokens: ClassVar[int] = ANSWER_TOKENS
    makes_items: ClassVar[bool] = True
    acts_elsewhere: ClassVar[str] = (
        "the outcome compares the answers to a question and to a changed one"
    )
    balanced: ClassVar[bool] = True
    """Whether items are searched for until half of them have either label."""

    def items(self) -> list[Item]:
        """The questions of the pool, each a draft."""
        return question_drafts(self.name)

    def adopt(self, items: Sequence[Item]) -> list[Item]:
        """A user's own questions with choices, as drafts."""
        return adopt_questions(items)

    def make_items(self, drafts: Sequence[Item], n: int | None, run: Runner) -> list[Item]:
        """Changed questions whose outcome was verified, balanced over it."""
        trials = verified_trials(
            [question_of(draft) for draft in drafts],
            n,
            run,
            propose=pool_changes,
            label=self.label,
            balanced=self.balanced,
        )
        return [self.item(trial) for trial in trials]

    def item(self, trial: Trial) -> Item:
        """The item of a verified trial."""
        return changed_item(self.name, trial.question, trial.changes[-1])

    def judged(self, changed: Asked, before: Answers, after: Answers) -> tuple[Judgment, ...]:
        """What the answers to the unchanged and to the changed question amount to."""
        return flips(before, after)

    def values(self, changed: Asked, before: Answers, after: Answers) -> dict[str, Any]:
        """The truths of the value questions, by name."""
        return {}

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Put both questions of every item to the model."""
        return [
            Observation(
                before.completions + after.completions,
                self.judged(changed_of(item), before, after),
                self.values(changed_of(item), before, after),
            )
            for item, (before, after) in zip(items, both_answers(items, run), strict=True)
        ]

    def label(self, trial: Trial) -> int | None:
        """The outcome that an item of this trial will have; None where less than a quarter of it can be read.

        That is of pairs what half of the answers to either question make. A rule that leaves a question as it is (typos
        in "bee") has made no change.
        """
        if not trial.changes or trial.changes[-1].asked == trial.question.asked():
            return None
        judged = self.judged(trial.changes[-1].asked, trial.before, trial.after[-1])
        n_read = sum(judgment.outcome is not None for judgment in judged)
        return outcome(judged) if 4 * n_read >= len(judged) else None


class FlipDecisionTask(ChangeTask):
    """Would this change flip my answer?"""

    name: ClassVar[str] = "flip_decision"
    summary: ClassVar[str] = "a question and a changed one: would I choose another option?"
    behavior: ClassVar[str] = "chooses another option under the change"
    event: ClassVar[Event] = Event(
        setting=BOTH_MESSAGES,
        question="Would <your> answers to the two messages name different options",
        yes="<Your> answers to the two messages would be different.",
        no="<Your> answers to the two messages would be the same.",
    )


class FlipDecisionShownTask(ChangeTask):
    """Would this change flip my answer, which I am shown?"""

    name: ClassVar[str] = "flip_decision_shown"
    summary: ClassVar[str] = "the same, with the own answer to the first one shown"
    behavior: ClassVar[str] = "chooses another option under the change"
    event: ClassVar[Event] = Event(
        setting='First message: "{prompt}"\n\n<Your> answer to the first message: "{own_answer}"\n\n'
        'Second message: "{changed}"',
        question='Would <your> answer to the second message be something other than "{own_answer}"',
        yes="<Your> answer to the second message would be different.",
        no="<Your> answer to the second message would be the same.",
    )

    def item(self, trial: Trial) -> Item:
        """The item with the option that the model usually chooses without the change."""
        assert trial.before.usual is not None
        return changed_item(
            self.name, trial.question, trial.changes[-1], own_answer=trial.before.usual
        )


class FlipRateTask(ChangeTask):
    """How often would this change flip my answer?

    With `k` sampled answers to either question the rate is over all `k` times `k` pairs of them (2608.30980); it holds
    what sampling alone changes. The yes/no event is that more than half of the pairs differ.
    """

    name: ClassVar[str] = "flip_rate"
    summary: ClassVar[str] = (
        "a question and a changed one, answered many times: how often do they differ?"
    )
    behavior: ClassVar[str] = "chooses another option under the change more often than not"
    min_samples: ClassVar[int] = 3
    # Sampled answers cost k times as much to search, and their rates spread by themselves.
    balanced: ClassVar[bool] = False
    event: ClassVar[Event] = Event(
        setting=BOTH_MESSAGES,
        question="Would <your> answers to the two messages mostly name different options",
        yes="<Your> answers to the two messages would mostly be different.",
        no="<Your> answers to the two messages would mostly be the same.",
    )

    def judged(self, changed: Asked, before: Answers, after: Answers) -> tuple[Judgment, ...]:
        """One judgment a pair."""
        return flips_of_pairs(before, after)

"""What the tasks share that read how a model leans between the two options of a question."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from experiments.tasks.base import Task
from experiments.tasks.counterfactual.drafts import adopt_questions, question_drafts, question_of
from experiments.tasks.counterfactual.log_odds import tells_options_apart
from experiments.tasks.counterfactual.pool import ANSWER_TOKENS, Question
from experiments.tasks.item import Item


class LeaningTask(Task):
    """A task on questions of two options, whose outcome is read off their log-probabilities: nothing is generated."""

    family: ClassVar[str | None] = "counterfactual"
    max_new_tokens: ClassVar[int] = ANSWER_TOKENS
    needs_logprobs: ClassVar[bool] = True

    @abstractmethod
    def item(self, draft: Item, question: Question) -> Item:
        """The item of a draft, whose messages are the question as it stands."""

    def items(self) -> list[Item]:
        """The questions of the pool that have two options with different first letters."""
        return [
            self.item(draft, question_of(draft))
            for draft in question_drafts(self.name)
            if len(draft.meta["choices"]) == 2 and tells_options_apart(question_of(draft))
        ]

    def adopt(self, items: Sequence[Item]) -> list[Item]:
        """A user's own questions of two options.

        Raises:
            ValueError: an item with another number of choices, or whose choices begin with the same letter.
        """
        drafts = adopt_questions(items)
        for draft in drafts:
            choices = draft.meta["choices"]
            if len(choices) != 2 or not tells_options_apart(question_of(draft)):
                raise ValueError(
                    f"choices: those of item {draft.id!r} of task {self.name!r} are {choices}; "
                    "give two that begin with different letters"
                )
        return [self.item(draft, question_of(draft)) for draft in drafts]

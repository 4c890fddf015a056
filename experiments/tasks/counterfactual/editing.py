"""Can I change a question so that my own answer flips, and do I know whether it does?

The model is shown a question and rewrites it so that it would choose another option. What it writes is only ever put
into a prompt in place of the question's stem, never executed. The outcome is whether that flips its answer; beside it
stands whether a change drawn from the pool flips the answer to the same question (`pool_change_flips` among the
values), which is what a writer without any knowledge of itself would reach.

Items are not balanced, for the share of changes that flip is the model's success, to be compared with the pool's on the
same questions. The yes/no event (will my change flip my answer?) has a real constant baseline; the writing has none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from experiments.tasks.base import Observation
from experiments.tasks.counterfactual.answering import answers_to, flips, outcome
from experiments.tasks.counterfactual.changed_items import unchanged
from experiments.tasks.counterfactual.drafts import question_of
from experiments.tasks.counterfactual.flips import ChangeTask
from experiments.tasks.counterfactual.pool import Asked, Question
from experiments.tasks.counterfactual.trials import Change, drawn_changes, verified_trials
from experiments.tasks.item import Item, may_end_its_turn
from experiments.tasks.runner import Runner
from experiments.tasks.wording import Event
from hooks import Prompt

_EDIT_TOKENS = 24
_REQUEST = (
    '"{question}"\n\nChange the question a little, so that you would choose another option. '
    "Write only the changed question."
)


class EditProposalTask(ChangeTask):
    """Can I change the question so that my answer flips, and do I know whether it does?"""

    name: ClassVar[str] = "edit_proposal"
    summary: ClassVar[str] = "it rewrites a question to flip its own answer: will that work?"
    behavior: ClassVar[str] = "chooses another option after its own change of the question"
    event: ClassVar[Event] = Event(
        setting='Message: "{prompt}"\n\n<You> changed it into: "{changed}"',
        question="Would <your> answer to the changed message be different",
        yes="<Your> answer to the changed message would be different.",
        no="<Your> answer to the changed message would be the same.",
    )

    def make_items(self, drafts: Sequence[Item], n: int | None, run: Runner) -> list[Item]:
        """Questions with the model's own change, where the answers to both can be read."""
        trials = verified_trials(
            [question_of(draft) for draft in drafts],
            n,
            run,
            propose=_own_edits,
            label=self.label,
            balanced=False,
            attempts=1,
        )
        return [self.item(trial) for trial in trials]

    def observe(self, items: Sequence[Item], run: Runner) -> list[Observation]:
        """Put the question, the model's own change of it and one of the pool to the model."""
        own = super().observe(items, run)
        befores = answers_to([unchanged(item) for item in items], run)
        drawn = answers_to([_pool_change(item) for item in items], run)
        return [
            replace(one, values={"pool_change_flips": outcome(flips(before, after))})
            for one, before, after in zip(own, befores, drawn, strict=True)
        ]


def edited_stem(written: str, stem: str) -> str | None:
    """The changed question in what the model wrote: its first line, without quotes; None where nothing was changed."""
    lines = [line.strip(" \"'*") for line in written.splitlines()]
    line = next((line for line in lines if line), "")
    if not line or may_end_its_turn(line) or _normalized(line) == _normalized(stem):
        return None
    return line


def _normalized(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _own_edits(tried: Sequence[tuple[Question, int]], run: Runner) -> list[list[Change]]:
    requests = [
        Prompt.chat(question.id, _REQUEST.format(question=question.text)) for question, _ in tried
    ]
    written = run.complete(requests, max_new_tokens=_EDIT_TOKENS, samples=1)
    return [
        _own_edit(question, completions[0].text)
        for (question, _), completions in zip(tried, written, strict=True)
    ]


def _own_edit(question: Question, written: str) -> list[Change]:
    stem = edited_stem(written, question.stem)
    if stem is None:
        return []
    return [Change("own change", "own change", replace(question, stem=stem).asked())]


def _pool_change(item: Item) -> Asked:
    """A change of the pool, drawn for the item's question."""
    question = Question(
        item.id, item.group, item.stratum, item.meta["stem"], tuple(item.meta["choices"])
    )
    return drawn_changes(question, 0, 1)[0].asked

"""What is left out, and why: before the model acts on a draft, and afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.behavior import Behavior
from experiments.self_prediction.synthetic.draft import Draft
from experiments.self_prediction.synthetic.duplicates import Seen
from experiments.tasks import CompletionTask, Item, Task

_EXCLUDED = "excluded"


class Sieve:
    """Lets every draft through once that is neither a test item nor one that was there before.

    Args:
        task: of the drafts; the right answer of a draft must be right by its judgment.
        exclude: the test items. A draft may not share a fact with them either (`Item.meta["shares"]`).
    """

    def __init__(self, task: Task, exclude: Sequence[Item]) -> None:
        self._task = task
        self._tested = Seen()
        self._seen = Seen()
        self._keys: set[str] = set()
        self._tested_facts = {fact for item in exclude for fact in item.meta.get("shares", ())}
        for item in exclude:
            self._tested.add(item.text, _EXCLUDED)

    def reason(self, draft: Draft) -> str:
        """Why a draft is left out; "" for one that is let through, and is remembered."""
        item = draft.item
        if not _answer_is_right(self._task, item):
            return "right answer not recognized by the task"
        if self._tested.verdict(item.text, item.group):
            return "as a test item, or nearly"
        if self._tested_facts.intersection(item.meta.get("shares", ())):
            return "about the same as a test item"
        if self._keys.intersection(draft.keys):
            return "fact or name used before"
        verdict = self._seen.verdict(item.text, item.group)
        if not verdict:
            self._seen.add(item.text, item.group)
            self._keys.update(draft.keys)
        return verdict


def unverified(behavior: Behavior) -> str:
    """Why an outcome does not count: it could not be told, or the judges do not agree; else ""."""
    if behavior.outcome is None:
        return f"unscored: {behavior.reason}"
    if len({label for labels in behavior.votes.values() for label in labels}) > 1:
        return "judges disagree"
    return ""


def _answer_is_right(task: Task, item: Item) -> bool:
    """Whether the task takes the reference answer for right, where its outcome is about being right."""
    if not (task.outcome_is_right and isinstance(task, CompletionTask)):
        return True
    return task.judge([item], [f"{item.answers[0]}."])[0].outcome == 1

"""Items of a changed question: what they hold, and the two questions that are read off them again."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.tasks.counterfactual.answering import Answers, answers_to
from experiments.tasks.counterfactual.pool import Asked, Question
from experiments.tasks.counterfactual.trials import Change
from experiments.tasks.item import Item, conversation_text, user
from experiments.tasks.runner import Runner


def changed_item(task: str, question: Question, change: Change, **fields: str) -> Item:
    """The changed question as the model reads it; what is quoted is the unchanged one.

    The group is the question's. Changes recur over groups: `meta["entity"]` is the change and `meta["type"]` its kind,
    so that a second split can hold out either.
    """
    return Item(
        id=question.id,
        task=task,
        group=question.group,
        stratum=question.stratum,
        messages=change.asked.messages,
        meta={
            "entity": change.name,
            "type": change.kind,
            "stem": question.stem,
            "choices": list(question.options),
            "changed_choices": list(change.asked.options),
            "marks": list(change.asked.marks),
        },
        fields={
            "prompt": question.text,
            "changed": conversation_text(change.asked.messages),
            **fields,
        },
    )


def unchanged(item: Item) -> Asked:
    """The unchanged question of an item."""
    return Asked(user(item.fields["prompt"]), tuple(item.meta["choices"]))


def changed_of(item: Item) -> Asked:
    """The changed question of an item."""
    return Asked(item.messages, tuple(item.meta["changed_choices"]), tuple(item.meta["marks"]))


def both_answers(items: Sequence[Item], run: Runner) -> list[tuple[Answers, Answers]]:
    """The answers to the unchanged and to the changed question of every item."""
    asked = [ask(item) for ask in (unchanged, changed_of) for item in items]
    answers = answers_to(asked, run)
    return list(zip(answers[: len(items)], answers[len(items) :], strict=True))

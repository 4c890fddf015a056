"""Questions as draft items, which the tasks of this family turn into items by running the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.tasks.counterfactual.pool import Question, questions
from experiments.tasks.item import Item, user


def question_drafts(task: str, *, with_answers: bool = False) -> list[Item]:
    """The pool as draft items of a task, each a question as it stands.

    `with_answers` keeps the right option; the tasks that do not score it leave it out.
    """
    return [
        Item(
            id=f"{task}-{question.id}",
            task=task,
            group=question.group,
            stratum=question.stratum,
            messages=user(question.text),
            answers=(question.answer,) if with_answers else (),
            meta={"stem": question.stem, "choices": list(question.options)},
        )
        for question in questions()
    ]


def adopt_questions(items: Sequence[Item]) -> list[Item]:
    """A user's own multiple-choice questions as draft items.

    Raises:
        ValueError: an item without two to four different choices, or of more than one message.
    """
    adopted = []
    for item in items:
        choices = item.meta.get("choices", ())
        if not 2 <= len(choices) <= 4 or len({choice.lower() for choice in choices}) < len(choices):
            raise ValueError(
                f"choices: item {item.id!r} of task {item.task!r} has {list(choices)}; "
                "give each row a list of two to four different 'choices' (in CSV: first|second)"
            )
        if len(item.messages) != 1:
            raise ValueError(
                f"messages: item {item.id!r} of task {item.task!r} has {len(item.messages)}; "
                "give the question as 'text'"
            )
        draft = replace(item, meta={**item.meta, "stem": item.text})
        adopted.append(replace(draft, messages=user(question_of(draft).text)))
    return adopted


def question_of(draft: Item) -> Question:
    """The question of a draft item; the inverse of `question_drafts`."""
    return Question(
        id=draft.id,
        group=draft.group,
        stratum=draft.stratum,
        stem=draft.meta["stem"],
        options=tuple(draft.meta["choices"]),
        answer=draft.answers[0] if draft.answers else "",
    )

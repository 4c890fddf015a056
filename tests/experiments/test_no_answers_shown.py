"""No reference answer stands in a self-prediction prompt, unless the run reveals it: all tasks and items."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from experiments.elicitation import Questions
from experiments.tasks import TASKS, Item, Task
from tests.experiments.all_items import items_of

PARAPHRASES = 4


def prompts_of(task: Task, item: Item, **settings: bool) -> Iterator[tuple[str, str]]:
    """The template of every question about an item, and what it reads."""
    for _, question in Questions.of(task, PARAPHRASES).all:
        messages = question.prompt(item, **settings).messages
        assert messages is not None
        yield question.template, "\n".join(message["content"] for message in messages)


def given_to_the_model(item: Item) -> list[str]:
    """What the model itself reads when it acts, and what it wrote: a question may quote it."""
    own = [item.quoted, item.text, *(message["content"] for message in item.messages)]
    own += [text for name, text in item.fields.items() if name in QUOTES]
    return sorted(own, key=len, reverse=True)


QUOTES = (
    "prompt",
    "changed",
    "changes",
    "own_answer",
    "edit",
    "first",
    "second",
    "third",
    "fourth",
)
"""Fields that hold prompts as the model reads them, or its own words; the others are checked."""


def shown(item: Item, template: str, content: str) -> set[str]:
    """Reference answers that a question shows outside what the model is given anyway.

    What the template says to every item alike ("from 0 to 100") gives no answer away.
    """
    for text in given_to_the_model(item):
        content = content.replace(text, " ")
    return {
        answer
        for answer in item.answers
        if len(answer) > 1 and stands_in(answer, content) and not stands_in(answer, template)
    }


def stands_in(answer: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE) is not None


@pytest.mark.parametrize("name", TASKS)
def test_no_question_shows_a_reference_answer(name: str) -> None:
    task = TASKS[name]()
    for item in items_of(task):
        for template, content in prompts_of(task, item):
            assert not shown(item, template, content), (item.id, content)


@pytest.mark.parametrize("name", TASKS)
def test_no_question_hangs_on_the_reference_answers(name: str) -> None:
    """Other answers, same questions: whatever a question shows, it is not made of them."""
    task = TASKS[name]()
    for item in items_of(task):
        other = replace(item, answers=("something else",))
        assert list(prompts_of(task, other)) == list(prompts_of(task, item))


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.needs_answers])
def test_a_revealed_answer_is_found(name: str) -> None:
    """The same check sees an answer where there is one."""
    task = TASKS[name]()
    item = next(one for one in items_of(task) if len(one.answers[0]) > 1)
    for template, content in prompts_of(task, item, answer_revealed=True):
        assert item.answers[0] in shown(item, template, content)

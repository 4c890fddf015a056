"""What holds of every registered task and its items."""

from collections import Counter

import pytest

from experiments.elicitation import option_spellings
from experiments.tasks import TASKS, families
from hooks import Model
from hooks.readout import option_tokens
from tests.experiments.all_items import items_of


def test_ids_are_unique_over_all_tasks() -> None:
    """Tasks of one run share its files and caches, which are keyed by the item's id."""
    ids = Counter(item.id for task in TASKS.values() for item in items_of(task()))
    assert not [id for id, count in ids.items() if count > 1]


@pytest.mark.parametrize("name", TASKS)
def test_items_are_of_their_task_and_differ(name: str) -> None:
    task = TASKS[name]()
    items = items_of(task)
    assert len(items) >= 40
    assert {item.task for item in items} == {name}
    texts = Counter((item.text, tuple(sorted(item.fields.items()))) for item in items)
    assert max(texts.values()) == 1
    assert len({item.group for item in items}) >= 20


@pytest.mark.parametrize("name", TASKS)
def test_questions_have_names_of_their_own(name: str) -> None:
    task = TASKS[name]
    assert task.name == name
    assert task.summary
    assert task.behavior
    names = [e.name for e in task.elicitations] + [q.name for q in task.value_questions]
    assert len(set(names) | {"percent"}) == len(names) + 1


def test_options_of_all_wordings_are_told_apart(embedded_model: Model) -> None:
    """All tasks in one run: the log-odds of every question are read in one pass."""
    asked = [e for task in TASKS.values() for e in task.elicitations]
    tokens = option_tokens(embedded_model.tokenizer, option_spellings(asked))
    assert set(tokens) == {word for e in asked for word in (e.yes, e.no)}


def test_a_family_is_no_task_and_has_several() -> None:
    for family, names in families().items():
        assert family not in TASKS
        assert len(names) >= 2

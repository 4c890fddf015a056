"""What a behavior is read by: first tokens that tell its outcomes apart, or none with the reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from experiments.causal.readouts import behavior_openings
from experiments.causal.subject import Subject
from experiments.records import write_rows
from experiments.run_folder import RunFolder
from experiments.tasks import TASKS, Item, Task
from hooks import Completion, Prompt
from tests.experiments.parity import ParityTask
from tests.experiments.scripted import ScriptedRunner


class LetterTokens:
    """A tokenizer of letters: words that begin with one letter begin with one token."""

    def __call__(self, text: str, add_special_tokens: bool = False) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text.strip()]}

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def subject(task: type[Task], items: list[Item]) -> Subject:
    """With no more than what openings look at; outcomes in turn."""
    made = Subject.__new__(Subject)
    for name, value in {
        "task": task(),
        "items": tuple(items),
        "outcome": np.arange(len(items)) % 2,
        "model": SimpleNamespace(tokenizer=LetterTokens()),
    }.items():
        object.__setattr__(made, name, value)
    return made


def openings(folder: Path, task: type[Task], said: tuple[list[str], list[str]]) -> Any:
    """Of items that said so: those of outcome 0, those of outcome 1."""
    items = [
        Item(f"i{number}", task.name, f"g{number}", "all", (), answers=("Paris",))
        for number in range(2 * len(said[0]))
    ]
    rows = [
        {"item": item.id, "completions": [said[number % 2][number // 2]]}
        for number, item in enumerate(items)
    ]
    write_rows(RunFolder(folder).behavior, rows)
    return behavior_openings(subject(task, items), RunFolder(folder))


def test_words_that_differ_after_their_first_token_tell_nothing_apart(tmp_path: Path) -> None:
    found = openings(tmp_path, ParityTask, (["Surely yes"] * 9, ["Sorry no"] * 9))
    assert found.tokens is None
    assert found.words.startswith("the first tokens of what the model says in task 'parity'")


def test_the_first_tokens_that_only_outcome_1_begins_with_are_learned(tmp_path: Path) -> None:
    said = (["Surely yes", "Gladly"] * 6, ["Sorry no", "Never", "no way"] * 4)
    found = openings(tmp_path, ParityTask, said)
    assert {chr(token) for token in found.tokens["i0"]} == {"N", "n"}
    assert set(found.tokens) == {f"i{number}" for number in range(24)}
    assert "Never" in found.words
    assert "Sorry" not in found.words


def test_a_task_that_keeps_no_completions_has_none(tmp_path: Path) -> None:
    found = openings(tmp_path, ParityTask, ([""] * 4, [""] * 4))
    assert found.tokens is None
    assert "keeps no completions" in found.words


def test_only_where_the_outcome_is_to_be_right_are_right_answers_read(tmp_path: Path) -> None:
    said = (["Oslo"] * 6, ["Paris"] * 6)
    for name in ("difficulty", "self_accuracy"):
        found = openings(tmp_path, TASKS[name], said)
        assert {chr(token) for token in found.tokens["i0"]} == {"P", "p"}
    found = openings(tmp_path, TASKS["ranking"], said)
    assert found.tokens is None
    assert found.words.startswith("task 'ranking' has no first token to read: the outcome compares")


def test_the_tasks_whose_outcome_is_to_be_right() -> None:
    assert {name for name, task in TASKS.items() if task.outcome_is_right} == {
        "difficulty",
        "self_accuracy",
    }


class Recording(ScriptedRunner):
    """Keeps the conversations that it was asked to go on with."""

    def __init__(self) -> None:
        super().__init__()
        self.conversations: set[Any] = set()

    def complete(self, prompts: Sequence[Prompt], **more: Any) -> list[tuple[Completion, ...]]:
        self.conversations |= {json.dumps(prompt.messages) for prompt in prompts}
        return super().complete(prompts, **more)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_acts_on_the_prompts_of_its_items_or_says_why_not(name: str) -> None:
    task, run = TASKS[name](), Recording()
    if task.makes_items:
        assert task.acts_elsewhere
        return
    items = task.items()[:4]
    task.observe(items, cast(Any, run))
    acts_on_its_own = run.conversations <= {json.dumps(item.messages) for item in items}
    if task.name != "self_written":  # which goes on with a question only if it can read one
        assert acts_on_its_own is (not task.acts_elsewhere) or task.needs_logprobs
    assert acts_on_its_own or task.acts_elsewhere

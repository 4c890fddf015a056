"""The peer's words: what a killed process left of them is taken up only where it is whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments.config import RunConfig, make_config
from experiments.controls import peer_words
from experiments.controls.peer_words import ask_peer, read_peer_words
from experiments.progress import Silent
from experiments.run_folder import RunFolder
from experiments.tasks import TASKS, Item, Task
from tests.conftest import make_tiny_model
from tests.experiments import parity


class OtherTask(parity.ParityTask):
    name = "other"


MODEL = make_tiny_model("gpt2")


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    for task in (parity.ParityTask, OtherTask):
        monkeypatch.setitem(TASKS, task.name, task)
    return make_config({"tasks": "parity,other", "paraphrases": 1, "words": "short"})


def asked(folder: RunFolder, config: RunConfig) -> tuple[bytes, int]:
    """What `ask_peer` leaves, and of how many tasks it asked the model."""
    items: Mapping[Task, list[Item]] = {
        task: [
            Item(f"{task.name}-{i}", task.name, f"g{i}", "all", item.messages)
            for i, item in enumerate(task.items()[:4])
        ]
        for task in (parity.ParityTask(), OtherTask())
    }
    calls = []
    original = peer_words.option_logprobs

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(peer_words, "option_logprobs", counted)
        ask_peer(folder, config, MODEL, items, Silent())
    return folder.peer_words.read_bytes(), len(calls)


@pytest.mark.parametrize(
    ("n_left", "n_asked"), [(0, 2), (3, 2), (7, 2), (8, 1), (12, 1), (15, 1), (16, 0)]
)
def test_a_task_that_was_written_in_part_is_asked_again(
    config: RunConfig, tmp_path: Path, n_left: int, n_asked: int
) -> None:
    """Two tasks of four items and two questions: 16 rows; the kill comes in the middle of any of them."""
    (tmp_path / "whole").mkdir()
    whole, n_calls = asked(RunFolder(tmp_path / "whole"), config)
    assert n_calls == 2
    lines = whole.splitlines(keepends=True)
    assert len(lines) == 16

    folder = RunFolder(tmp_path / "killed")
    folder.path.mkdir()
    store = folder.peer_words.with_suffix(".partial.jsonl")
    store.write_bytes(b"".join(lines[:n_left]) + b'{"item": "torn')
    assert asked(folder, config) == (whole, n_asked)
    assert not store.exists()
    assert len(read_peer_words(folder)) == 16


def test_rows_of_other_items_do_not_count(config: RunConfig, tmp_path: Path) -> None:
    """As many rows as wanted, of which one is of an item that is not asked about."""
    (tmp_path / "whole").mkdir()
    whole, _ = asked(RunFolder(tmp_path / "whole"), config)
    folder = RunFolder(tmp_path / "other")
    folder.path.mkdir()
    store = folder.peer_words.with_suffix(".partial.jsonl")
    store.write_bytes(whole.replace(b'"item": "parity-0"', b'"item": "parity-9"'))
    assert asked(folder, config) == (whole, 1)

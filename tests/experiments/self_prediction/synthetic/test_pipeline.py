from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.behavior import LocalRunner, label_behavior
from experiments.records import append_rows, read_rows
from experiments.self_prediction.synthetic import Synthesized, rounds, synthesize
from experiments.self_prediction.synthetic.duplicates import normalized
from experiments.tasks import DifficultyTask, Item
from experiments.tasks.item import user
from hooks import Model
from tests.conftest import make_tiny_model
from tests.experiments.parity import ParityTask, SilentTask
from tests.experiments.self_prediction.synthetic.small_bank import SmallBank

OUTPUTS = ("items.jsonl", "behavior.jsonl", "card.json", "card.md")


@pytest.fixture(autouse=True)
def _small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "TEMPLATED", 24)
    monkeypatch.setattr(rounds, "REQUESTS", 4)


def made(folder: Path, n: int = 24, **settings: Any) -> Synthesized:
    return synthesize(
        ParityTask(), make_tiny_model("llama"), n, folder, bank=SmallBank(), **settings
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in OUTPUTS}


def test_outcomes_are_those_of_the_model_and_half_of_each_in_every_stratum(tmp_path: Path) -> None:
    found = made(tmp_path)
    labeled = found.labeled
    assert len(labeled) == 24
    behavior = label_behavior(
        LocalRunner(make_tiny_model("llama")), ParityTask(), list(labeled.items)
    )
    assert labeled.outcome.tolist() == [one.outcome for one in behavior]
    assert [row["item"] for row in read_rows(tmp_path / "behavior.jsonl")] == labeled.ids
    for stratum in set(labeled.strata):
        own = labeled.outcome[labeled.strata == stratum]
        assert own.mean() == 0.5
    for end in range(2, 25, 2):
        assert labeled.outcome[:end].mean() == 0.5
    assert {item.meta["source"] for item in labeled.items} == {"template", "model"}
    assert len(set(labeled.ids)) == len({normalized(item.text) for item in labeled.items}) == 24


def test_a_larger_set_begins_with_the_smaller_one(tmp_path: Path) -> None:
    small, large = made(tmp_path / "small", 8), made(tmp_path / "large", 32)
    assert large.labeled.items[:8] == small.labeled.items
    assert len(large.labeled) == 32
    grown = made(tmp_path / "small", 32)
    assert grown.labeled.items == large.labeled.items
    assert contents(tmp_path / "small") == contents(tmp_path / "large")


class KilledError(Exception):
    """The process ended here."""


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_a_killed_run_is_picked_up_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    made(tmp_path / "whole", 48)
    calls: list[str] = []

    def dying(path: Path, rows: Any) -> None:
        append_rows(path, rows)
        calls.append(path.name)
        if len(calls) == batches:
            with path.open("ab") as torn:
                torn.write(b'{"key": "torn')
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr("experiments.behavior.runner.append_rows", dying)
        with pytest.raises(KilledError):
            made(tmp_path / "killed", 48)
    assert not (tmp_path / "killed" / "items.jsonl").exists()
    made(tmp_path / "killed", 48)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_test_items_are_kept_out(tmp_path: Path) -> None:
    first = made(tmp_path / "first", 8).labeled.items
    tested = [
        Item("t1", "parity", "t", "all", user(first[0].text.upper() + "!!")),
        Item("t2", "parity", "t", "all", user("The " + first[1].text)),
    ]
    card = made(tmp_path / "second", 24, exclude=tested).card
    kept = {row["messages"][0]["content"] for row in read_rows(tmp_path / "second/items.jsonl")}
    assert first[0].text not in kept
    assert card["excluded"]["n"] == 2
    assert card["steps"]["left_out_before_the_model_acted"]["as a test item, or nearly"] >= 1


def test_the_card_accounts_for_every_draft(tmp_path: Path) -> None:
    card = json.loads(json.dumps(made(tmp_path).card))
    steps = card["steps"]
    drafted = sum(steps["drafted"].values())
    assert drafted % (24 + 4 * rounds.SAMPLES) == 0
    assert drafted == sum(steps["left_out_before_the_model_acted"].values()) + steps["run"]
    assert steps["run"] == sum(steps["left_out_afterwards"].values()) + steps["verified"]
    assert steps["verified"] - steps["without_counterpart"] >= card["n_items"] == 24
    assert card["outcomes"] == {"0": 12, "1": 12}
    rates = card["base_rate_before_balancing"]
    assert rates["all"]["n"] == steps["verified"]
    assert sum(rates[f"stratum: {name}"]["n"] for name in ("low", "high")) == steps["verified"]
    assert card == json.loads((tmp_path / "card.json").read_text())
    page = (tmp_path / "card.md").read_text()
    assert f"| verified | {steps['verified']} |" in page
    assert "- Senseless." in page
    assert str(tmp_path) not in page


def test_a_model_without_one_of_the_outcomes_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no two of a stratum a different one"):
        synthesize(SilentTask(), make_tiny_model("llama"), 4, tmp_path, bank=SmallBank())


@pytest.mark.parametrize(
    ("changed", "what"),
    [({"seed": 1}, "seed"), ({"exclude": ParityTask().items()[:2]}, "excluded")],
)
def test_a_folder_of_other_items_is_refused(
    tmp_path: Path, changed: dict[str, Any], what: str
) -> None:
    made(tmp_path, 4)
    with pytest.raises(ValueError, match=f"holds items made with another {what}"):
        made(tmp_path, 4, **changed)


def test_bad_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no templates for 'parity'; choose from refusal, diff"):
        synthesize(ParityTask(), make_tiny_model("llama"), 4, tmp_path)
    with pytest.raises(ValueError, match="n: 1 items have no balance"):
        made(tmp_path, 1)


@pytest.mark.slow
def test_the_embedded_model_gives_balanced_questions(
    tmp_path: Path, embedded_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "TEMPLATED", 60)
    task = DifficultyTask()
    found = synthesize(task, embedded_model, 40, tmp_path, exclude=task.items())
    labeled = found.labeled
    assert len(labeled) == 40
    assert labeled.outcome.mean() == 0.5
    judged = task.judge(labeled.items, [item.answers[0] for item in labeled.items])
    assert {one.outcome for one in judged} == {1}
    tested = {fact for item in task.items() for fact in item.meta["shares"]}
    assert not any(tested.intersection(item.meta["shares"]) for item in labeled.items)
    assert len(Counter(labeled.groups)) > 10
    assert np.unique(labeled.strata).size > 3

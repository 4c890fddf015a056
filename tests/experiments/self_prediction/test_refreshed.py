from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.behavior import LocalRunner, label_behavior
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.refreshed import RefreshedLabels
from experiments.self_prediction.reinforcement import Reinforce
from hooks import Model
from tests.conftest import make_tiny_model
from tests.experiments.self_prediction.menu import (
    QUESTION,
    SaysA,
    labeled,
    menu_model,
    token_of,
    trainable,
)


def part_of(outcomes: list[int], first: int = 0) -> Labeled:
    return Labeled(SaysA(), labeled(outcomes, first).items, np.array(outcomes))


def lean_to(model: Model, word: str) -> None:
    """Make the model answer with a word, whatever it is asked."""
    with torch.no_grad():
        model.module.lm_head.bias[token_of(model, word)] += 100.0


def test_labels_follow_what_the_model_does_now(tmp_path: Path) -> None:
    model = menu_model(("A", "B", "C"))
    labels = RefreshedLabels(model, 3, tmp_path / "labels.jsonl")
    train, validation = part_of([0, 1, 0]), part_of([0, 0], first=3)
    for step in (0, 1, 2):
        assert labels.at(step, train, validation) == (train, validation)
    lean_to(model, "A")
    first, second = labels.at(3, train, validation)
    assert first.outcome.tolist() == [1, 1, 1]
    assert second.outcome.tolist() == [1, 1]
    assert first.items == train.items
    lean_to(model, "B")
    lean_to(model, "B")
    assert labels.at(5, first, second)[0].outcome.tolist() == [1, 1, 1]
    assert labels.at(6, first, second)[0].outcome.tolist() == [0, 0, 0]


def test_an_outcome_that_cannot_be_told_leaves_the_label() -> None:
    model = menu_model(("A", "B", "C"))
    lean_to(model, "C")
    train, validation = part_of([0, 1, 0]), part_of([1])
    assert RefreshedLabels(model, 2).at(2, train, validation)[0].outcome.tolist() == [0, 1, 0]


def test_labels_are_those_of_the_behavior_stage() -> None:
    model = make_tiny_model("llama")
    train = labeled([0] * 8)
    behavior = label_behavior(LocalRunner(model), train.task, train.items)
    found = RefreshedLabels(model, 1).at(1, train, labeled([1]))[0]
    assert found.outcome.tolist() == [one.outcome for one in behavior]
    assert len(set(found.outcome.tolist())) == 2


def test_a_training_that_is_picked_up_goes_on_with_the_labels_of_the_last_refresh(
    tmp_path: Path,
) -> None:
    model = menu_model()
    store = tmp_path / "labels.jsonl"
    train, validation = part_of([0, 1]), part_of([1])
    lean_to(model, "A")
    kept = RefreshedLabels(model, 2, store).at(2, train, validation)
    lean_to(model, "B")
    lean_to(model, "B")
    again = RefreshedLabels(model, 2, store).at(3, train, validation)
    assert [part.outcome.tolist() for part in again] == [part.outcome.tolist() for part in kept]
    with pytest.raises(RuntimeError, match="labels: those of step 4 are lost"):
        RefreshedLabels(model, 2, store).at(5, train, validation)
    RefreshedLabels(model, 2, store).at(0, train, validation)
    assert not store.exists()


def test_rewards_follow_the_refreshed_labels() -> None:
    model = menu_model()
    lean_to(model, "A")
    lean_to(model, "A")
    part = part_of([0, 0, 0, 0])
    objective = Reinforce(
        model, part, part, [QUESTION], trainable(model), batch=4, group=2, answer_tokens=1,
        refreshed=RefreshedLabels(model, 2),
    )  # fmt: skip
    earned = []
    for step in range(3):
        list(objective.losses(step))
        earned.append(objective.metrics["reward"])
    assert earned == [0.5, 0.5, 1.5]
    assert objective.validate() == pytest.approx(-1.5, abs=1e-4)


def test_a_count_of_steps_is_positive() -> None:
    with pytest.raises(ValueError, match="refresh_every: 0 is not positive"):
        RefreshedLabels(menu_model(), 0)

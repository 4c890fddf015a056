from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.self_prediction import reinforcement
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.refreshed import RefreshedLabels
from experiments.self_prediction.reinforcement import Reinforce
from experiments.self_prediction.training import TrainSettings, train
from hooks import Completion, Model, Prompt, render
from tests.conftest import make_tiny_model
from tests.experiments.self_prediction.menu import (
    QUESTION,
    SaysA,
    labeled,
    menu_model,
    token_of,
    trainable,
)

TEMPERATURE = 1.3


def made(model: Model, outcomes: list[int], **settings: Any) -> Reinforce:
    settings = {
        "batch": len(outcomes),
        "group": 16,
        "temperature": 2.0,
        "answer_tokens": 1,
    } | settings
    part = labeled(outcomes)
    return Reinforce(model, part, part, [QUESTION], trainable(model), **settings)


def gradients(objective: Reinforce, step: int = 0) -> list[torch.Tensor]:
    """Of what is trained, summed over the micro-batches of a step."""
    for parameter in objective.parameters.values():
        parameter.grad = None
    for loss in objective.losses(step):
        loss.backward()  # type: ignore[no-untyped-call]
    return [p.grad.clone() for p in objective.parameters.values() if p.grad is not None]


def next_probabilities(model: Model, prompt: Prompt, temperature: float) -> torch.Tensor:
    ids = torch.tensor([render(model, prompt).token_ids])
    logits: torch.Tensor = model.module(ids).logits[0, -1].float()
    return torch.softmax(logits / temperature, dim=-1)


def always(answers: Sequence[int], model: Model) -> Callable[..., list[Completion]]:
    """In place of `generate`: the samples of every prompt are these tokens."""

    def generate(
        _: Model, prompts: Sequence[Prompt], *, on_tokens: Any, **__: Any
    ) -> list[Completion]:
        found = []
        for prompt in prompts:
            for sample, token in enumerate(answers):
                on_tokens(prompt.id, sample, [token])
                text = model.tokenizer.decode([token])
                found.append(Completion(prompt.id, sample, text, 1, False))
        return found

    return generate


@pytest.mark.parametrize("group", [2, 3])
def test_the_expected_gradient_is_that_of_the_enumerated_reward(
    monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    model = menu_model()
    objective = made(model, [1], group=group, temperature=TEMPERATURE)
    prompt = QUESTION.prompt(labeled([1]).items[0])
    right, wrong = token_of(model, "A"), token_of(model, "B")
    probabilities = next_probabilities(model, prompt, TEMPERATURE)
    reward = 1.5 * probabilities[right] + 0.5 * probabilities[wrong]
    true = torch.autograd.grad(reward, list(objective.parameters.values()))
    odds = {token: float(probabilities[token].detach()) for token in (right, wrong)}
    assert min(odds.values()) > 0.05
    expected = [torch.zeros_like(one) for one in true]
    for answers in product((right, wrong), repeat=group):
        monkeypatch.setattr(reinforcement, "generate", always(answers, model))
        chance = float(np.prod([odds[token] for token in answers]))
        for total, gradient in zip(expected, gradients(objective), strict=True):
            total += chance * gradient
    assert max(float(one.abs().max()) for one in true) > 1e-3
    for mine, one in zip(expected, true, strict=True):
        torch.testing.assert_close(mine, -(1 - 1 / group) * one, atol=1e-6, rtol=1e-3)


def test_answers_are_drawn_from_the_tempered_policy() -> None:
    model = menu_model()
    objective = made(model, [1], group=2000, temperature=TEMPERATURE)
    list(objective.losses(0))
    prompt = QUESTION.prompt(labeled([1]).items[0])
    right = float(next_probabilities(model, prompt, TEMPERATURE).detach()[token_of(model, "A")])
    untempered = float(next_probabilities(model, prompt, 1.0).detach()[token_of(model, "A")])
    deviation = (right * (1 - right) / 2000) ** 0.5
    assert abs(right - untempered) > 6 * deviation
    assert abs(objective.metrics["reward"] - 0.5 - right) < 3 * deviation
    assert objective.metrics["parse_rate"] == 1.0


def test_the_right_answers_are_learned() -> None:
    model = menu_model()
    part = labeled([1, 0, 0, 1])
    objective = Reinforce(
        model, part, part, [QUESTION], dict(model.module.named_parameters()), batch=4, group=16,
        answer_tokens=1,
    )  # fmt: skip
    before = objective.validate()
    optimizer = torch.optim.Adam(list(objective.parameters.values()), lr=1e-3)
    for step in range(30):
        optimizer.zero_grad()
        for loss in objective.losses(step):
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert before > -1.2
    assert objective.validate() < -1.45


def test_a_reward_that_is_the_same_for_all_answers_gives_no_gradient() -> None:
    found = gradients(made(menu_model(), [1, 0, 1], reward="format"))
    assert len(found) == 3
    assert all(bool((one == 0).all()) for one in found)


def test_the_format_control_teaches_the_menu_and_knows_no_labels() -> None:
    model = menu_model(("A", "B", "C", "D"))
    objective, flipped = (
        made(model, outcomes, reward="format", group=16) for outcomes in ([1, 0], [0, 1])
    )
    found = gradients(objective)
    assert any(bool((one != 0).any()) for one in found)
    for mine, other in zip(found, gradients(flipped), strict=True):
        assert torch.equal(mine, other)
    assert 0 < objective.metrics["parse_rate"] < 1
    assert objective.metrics["reward"] == objective.metrics["parse_rate"]


def test_micro_batches_add_up_to_the_whole() -> None:
    model = menu_model()
    whole, parts = (made(model, [1, 0, 1, 1, 0], accumulate=n) for n in (1, 3))
    assert len(list(parts.losses(0))) == 3
    expected = gradients(whole)
    assert all(bool((one != 0).any()) for one in expected)
    for mine, one in zip(gradients(parts), expected, strict=True):
        torch.testing.assert_close(mine, one, atol=1e-7, rtol=1e-4)


def test_a_step_hangs_on_seed_and_number_alone() -> None:
    model = menu_model()
    first, again, other = (made(model, [1, 0, 1, 0], batch=3, seed=seed) for seed in (0, 0, 1))
    steps = [gradients(first, step) for step in range(3)]
    assert all(map(torch.equal, gradients(again, 2), steps[2]))
    assert not all(map(torch.equal, steps[1], steps[2]))
    assert not all(map(torch.equal, gradients(other, 2), steps[2]))


def test_an_epoch_asks_every_question_of_every_item_once() -> None:
    objective = made(menu_model(), [1, 0, 1, 0, 1, 0], batch=4)
    items = [asked.item for step in range(3) for asked in objective._asked(step)]
    assert sorted(items[:6]) == sorted(items[6:]) == list(range(6))
    assert items[:6] != items[6:]


def test_validation_is_minus_the_expected_reward() -> None:
    model = menu_model()
    outcomes = [1, 0, 1]
    expected = []
    for item, outcome in zip(labeled(outcomes).items, outcomes, strict=True):
        probabilities = next_probabilities(model, QUESTION.prompt(item), 1.0).detach()
        expected.append(0.5 + float(probabilities[token_of(model, "A" if outcome else "B")]))
    assert made(model, outcomes).validate() == pytest.approx(-np.mean(expected), abs=1e-5)
    assert made(model, outcomes, reward="format").validate() == pytest.approx(-1.0, abs=1e-5)


def test_longer_answers_end_at_their_stop_token() -> None:
    tiny = make_tiny_model("llama")
    part = labeled([1, 0])
    parameters = dict(tiny.module.named_parameters())
    objective = Reinforce(
        tiny, part, part, [QUESTION], parameters, batch=2, group=32, temperature=2.0
    )
    stop = tiny.tokenizer.eos_token_id
    answers = [tokens for one in objective._answered(objective._asked(0)) for tokens in one.tokens]
    assert max(map(len, answers)) == 8
    assert any(tokens[-1] == stop for tokens in answers)
    assert all(stop not in tokens[:-1] for tokens in answers)


class KilledError(Exception):
    """The process ended here."""


def test_a_killed_training_ends_with_the_same_bits(tmp_path: Path) -> None:
    settings = TrainSettings(steps=9, learning_rate=1e-3, evaluate_every=3, checkpoint_every=4)

    def trained(folder: Path, killed_at: int | None = None) -> dict[str, torch.Tensor]:
        model = menu_model()
        part = Labeled(SaysA(), labeled([1, 0, 0, 1]).items, np.array([1, 0, 0, 1]))
        folder.mkdir(exist_ok=True)
        objective = Reinforce(
            model,
            part,
            part,
            [QUESTION],
            trainable(model),
            batch=3,
            temperature=2.0,
            answer_tokens=1,
            refreshed=RefreshedLabels(model, 3, folder / "labels.jsonl"),
        )
        real = objective.losses

        def losses(step: int) -> Iterator[torch.Tensor]:
            if step == killed_at:
                raise KilledError
            yield from real(step)

        objective.losses = losses  # type: ignore[method-assign]
        train(objective, settings, folder)
        return {name: value.detach().clone() for name, value in objective.parameters.items()}

    whole = trained(tmp_path / "whole")
    with pytest.raises(KilledError):
        trained(tmp_path / "killed", killed_at=7)
    again = trained(tmp_path / "killed")
    untrained = trainable(menu_model())
    for name, value in whole.items():
        assert torch.equal(again[name], value)
        assert not torch.equal(untrained[name], value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group": 1}, "group: 1 answers"),
        ({"temperature": 0.0}, "temperature: 0.0 is not positive"),
        ({"accumulate": 9}, "accumulate: 9 parts of 2"),
        ({"accumulate": 0}, "accumulate: 0 parts of 2"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(menu_model(), [1, 0], **settings)

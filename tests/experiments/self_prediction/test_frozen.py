from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from experiments.self_prediction.frozen import FrozenHead
from experiments.self_prediction.heads import SelfPredictionHead, Shape, Target
from experiments.self_prediction.place import Place
from experiments.self_prediction.splits import TooFewError
from experiments.self_prediction.training import TrainSettings, train
from hooks import capture
from tests.experiments.self_prediction.head_data import PROMPTS

PLACE = Place("resid_post", 1, "prompt_last")
WIDTH = 6
TARGETS = (Target("xor"), Target("sum", "number"))


def made(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two signs among noise in uneven units; labels are their xor, known of half, and a weighted sum."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, WIDTH))
    labels = np.stack([states[:, 0] * states[:, 1] > 0, 100 + 10 * states[:, 2]], axis=1)
    labels = labels.astype(float)
    labels[: n // 2, 0] = np.nan
    return states * 10.0 ** np.arange(WIDTH) + 3, labels


def trained(shape: Shape, targets=TARGETS, columns=(0, 1), **settings) -> SelfPredictionHead:
    head = SelfPredictionHead(targets, PLACE, WIDTH, shape)
    (states, labels), (held, known) = made(600, 0), made(200, 1)
    columns = list(columns)
    objective = FrozenHead(head, states, labels[:, columns], held, known[:, columns])
    train(objective, TrainSettings(steps=300, learning_rate=2e-2, **settings))
    return head


def test_a_trained_mlp_finds_what_a_line_cannot() -> None:
    states, labels = made(400, 2)
    known = ~np.isnan(labels[:, 0])
    auroc = {}
    for shape in (Shape(), Shape("mlp", hidden=16), Shape("mlp", hidden=16, shared=False)):
        predicted = trained(shape).predict(states)
        auroc[shape] = roc_auc_score(labels[known, 0], predicted["xor"][known])
        assert np.corrcoef(labels[:, 1], predicted["sum"])[0, 1] > 0.98
        assert abs((predicted["sum"] - labels[:, 1]).mean()) < 1
    linear, shared, own = auroc.values()
    assert linear < 0.65
    assert min(shared, own) > 0.9


def test_a_trained_linear_head_is_the_logistic_regression() -> None:
    rng = np.random.default_rng(3)
    states = rng.normal(size=(300, WIDTH)) * 4 + 1
    y = states[:, 0] + 4 * rng.normal(size=300) > 1
    head = SelfPredictionHead([Target("y")], PLACE, WIDTH)
    objective = FrozenHead(head, states, y[:, None] * 1.0, states, y[:, None] * 1.0)
    train(objective, TrainSettings(steps=600, learning_rate=3e-2))
    wanted = LogisticRegression(C=np.inf, max_iter=1000).fit(states, y).predict_proba(states)[:, 1]
    np.testing.assert_allclose(head.predict(states)["y"], wanted, atol=5e-3)


@given(st.integers(0, 50), st.integers(1, 9), st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_micro_batches_add_up_to_their_step(step, accumulate, batch) -> None:
    states, labels = made(80, 5)
    losses = []
    for n in (1, accumulate):
        head = SelfPredictionHead(TARGETS, PLACE, WIDTH, Shape("mlp", hidden=3))
        one = FrozenHead(head, states, labels, states, labels, batch=batch, accumulate=n, seed=4)
        losses.append([loss.item() for loss in one.losses(step)])
    assert len(losses[1]) == min(accumulate, batch)
    assert sum(losses[1]) == pytest.approx(losses[0][0], rel=1e-4, abs=1e-6)


def test_steps_take_other_rows_and_the_same_ones_when_asked_again() -> None:
    states, labels = made(200, 6)
    head = SelfPredictionHead(TARGETS, PLACE, WIDTH, Shape("mlp", hidden=3))
    one = FrozenHead(head, states, labels, states, labels, batch=16, seed=1)
    other = FrozenHead(head, states, labels, states, labels, batch=16, seed=2)
    first, again, second = (next(one.losses(step)).item() for step in (0, 0, 1))
    assert first == again
    assert len({first, second, next(other.losses(0)).item()}) == 3


def test_training_on_states_leaves_the_model_as_it_was(tiny_model_of) -> None:
    model = tiny_model_of("llama")
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    fingerprint = model.fingerprint
    head = SelfPredictionHead.of(model, [Target("a")], PLACE)
    (read,) = capture(model, PROMPTS, PLACE.spec)
    states = read.sites["resid_post"][:, 0, 0].repeat(8, 1)
    labels = (torch.arange(40)[:, None] % 5 < 2).float()
    train(FrozenHead(head, states, labels, states, labels), TrainSettings(steps=5))
    assert bool(head.networks[0].weight.any())
    assert model.fingerprint == fingerprint
    assert all(parameter.grad is None for parameter in model.module.parameters())
    for name, tensor in model.module.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def labels_of(ones: int, zeros: int) -> np.ndarray:
    return np.repeat([1.0, 0.0, np.nan], [ones, zeros, 40 - ones - zeros])[:, None]


GOOD = labels_of(20, 20)
STATES = np.random.default_rng(0).normal(size=(40, WIDTH))
NUMBER, BINARY = Target("n", "number"), Target("a")


@pytest.mark.parametrize(
    ("target", "labels", "held", "error", "message"),
    [
        (BINARY, labels_of(9, 25), GOOD, TooFewError, "'a' has 9 labels 1 in training rows, at"),
        (BINARY, labels_of(25, 9), GOOD, TooFewError, "'a' has 9 labels 0 in training rows"),
        (BINARY, GOOD, GOOD * np.nan, TooFewError, "'a' has no validation row"),
        (BINARY, GOOD * 2, GOOD, ValueError, "'a' has labels outside 0 to 1; make it a number"),
        (NUMBER, labels_of(4, 5), GOOD, TooFewError, "'n' has 9 labels in training rows, 2 of"),
        (NUMBER, labels_of(20, 0), GOOD, TooFewError, "'n' has 20 labels in training rows, 1 of"),
        (BINARY, GOOD[:39], GOOD, ValueError, r"labels: shape \(39, 1\) of training rows"),
        (BINARY, GOOD, GOOD[:, 0], ValueError, r"labels: shape \(40,\) of validation rows"),
    ],
)
def test_labels_that_nothing_can_be_learned_from(target, labels, held, error, message) -> None:
    head = SelfPredictionHead([target], PLACE, WIDTH)
    with pytest.raises(error, match=message) as caught:
        FrozenHead(head, STATES, labels, STATES, held)
    assert "\n" not in str(caught.value)


def test_states_that_are_wrong_are_refused() -> None:
    head = SelfPredictionHead([BINARY], PLACE, WIDTH)
    nan = STATES.copy()
    nan[3, 2], nan[5, 0] = np.nan, np.inf
    with pytest.raises(ValueError, match="states: 2 training rows hold nan or inf"):
        FrozenHead(head, nan, GOOD, STATES, GOOD)
    with pytest.raises(ValueError, match=r"shape \(40, 5\) of validation rows, the head reads"):
        FrozenHead(head, STATES, GOOD, STATES[:, :5], GOOD)


def test_rates_are_labels_too() -> None:
    rates = np.linspace(0, 1, 40)[:, None]
    head = SelfPredictionHead([BINARY], PLACE, WIDTH)
    states = np.concatenate([rates * 4, STATES[:, 1:]], axis=1)
    train(FrozenHead(head, states, rates, states, rates), TrainSettings(300, 5e-2))
    assert np.corrcoef(head.predict(states)["a"], rates[:, 0])[0, 1] > 0.98

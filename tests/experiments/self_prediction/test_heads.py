from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from experiments.self_prediction.heads import SelfPredictionHead, Shape, Target
from experiments.self_prediction.place import Place
from hooks import Model

PLACE = Place("resid_post", 1, "prompt_last")
WIDTH = 5
TWO = (Target("refuses"), Target("tokens", "number"))
SHAPES = (Shape(), Shape("mlp", hidden=4), Shape("mlp", hidden=4, shared=False))


def drawn(shape: Shape, targets=TWO, seed: int = 0) -> SelfPredictionHead:
    head = SelfPredictionHead(targets, PLACE, WIDTH, shape)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(generator=generator)
    return head


def rows(seed: int, n: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    """States, and labels of a binary target and a number."""
    rng = np.random.default_rng(seed)
    labels = np.stack([rng.integers(0, 2, n), rng.normal(50, 9, n)], axis=1)
    return torch.tensor(rng.normal(size=(n, WIDTH)) * 3 + 1).float(), torch.tensor(labels).float()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@given(seed=st.integers(0, 2**20), mask=st.lists(st.booleans(), min_size=24, max_size=24))
@settings(max_examples=20, deadline=None)
def test_unknown_labels_count_for_nothing(shape, seed, mask) -> None:
    """The loss is the sum over the known labels of every target alone, by their number; so is its gradient."""
    head = drawn(shape, seed=seed)
    states, labels = rows(seed)
    head.standardize(states, labels)
    known = torch.tensor(mask).reshape(12, 2)
    loss = head.loss(states, labels.masked_fill(~known, torch.nan))
    loss.backward()
    found = [parameter.grad.clone() for parameter in head.parameters()]
    head.zero_grad()
    wanted = torch.zeros(())
    for column in range(2):
        own = known[:, column]
        if own.any():
            only = torch.full((int(own.sum()), 2), torch.nan)
            only[:, column] = labels[own, column]
            wanted = wanted + head.loss(states[own], only) * own.sum()
    wanted = wanted / max(1, int(known.sum()))
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5, abs=1e-6)
    if known.any():
        wanted.backward()
        for grad, parameter in zip(found, head.parameters(), strict=True):
            torch.testing.assert_close(grad, parameter.grad, rtol=1e-4, atol=1e-5)
    else:
        assert all(float(grad.abs().max()) == 0 for grad in found)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@given(seed=st.integers(0, 2**20), factor=st.floats(0.01, 100), shift=st.floats(-50, 50))
@settings(max_examples=20, deadline=None)
def test_units_of_states_and_of_numbers_change_nothing(shape, seed, factor, shift) -> None:
    states, labels = rows(seed)
    rng = np.random.default_rng(seed)
    units = torch.tensor(rng.uniform(0.1, 10, WIDTH)).float() * factor
    plain, other = drawn(shape, seed=seed), drawn(shape, seed=seed)
    plain.standardize(states, labels)
    moved = labels * torch.tensor([1.0, factor]) + torch.tensor([0.0, shift])
    other.standardize(states * units + shift, moved)
    before, after = plain.predict(states), other.predict(states * units + shift)
    np.testing.assert_allclose(after["refuses"], before["refuses"], atol=2e-3)
    np.testing.assert_allclose(
        (after["tokens"] - shift) / factor, before["tokens"], rtol=1e-3, atol=0.2
    )
    assert other.loss(states * units + shift, moved).item() == pytest.approx(
        plain.loss(states, labels).item(), rel=1e-2
    )


def test_the_loss_of_a_binary_target_is_its_cross_entropy_and_of_a_number_its_share_of_variance():
    states, labels = rows(1, 40)
    head = drawn(Shape())
    head.standardize(states, labels)
    predicted = head.predict(states)
    nan = torch.full((40,), torch.nan)
    entropy = head.loss(states, torch.stack([labels[:, 0], nan], dim=1)).item()
    assert entropy == pytest.approx(log_loss(labels[:, 0], predicted["refuses"]), rel=1e-5)
    squared = head.loss(states, torch.stack([nan, labels[:, 1]], dim=1)).item()
    number = labels[:, 1].double().numpy()
    wanted = ((predicted["tokens"] - number) ** 2).mean() / number.var()
    assert squared == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_untrained_head_foretells_one_half_and_the_mean(shape) -> None:
    states, labels = rows(2)
    head = SelfPredictionHead(TWO, PLACE, WIDTH, shape)
    head.standardize(states, labels)
    predicted = head.predict(states.numpy())
    np.testing.assert_array_equal(predicted["refuses"], np.full(12, 0.5, np.float32))
    np.testing.assert_allclose(predicted["tokens"], float(labels[:, 1].mean()), rtol=1e-5)


def test_a_constant_dimension_is_no_infinity() -> None:
    states, labels = rows(3)
    states[:, 2] = 7.0
    labels[:, 1] = 4.0
    head = drawn(Shape())
    head.standardize(states, labels)
    assert np.isfinite(head.predict(states)["tokens"]).all()
    assert torch.isfinite(head.loss(states, labels))


def test_the_weights_of_a_hidden_layer_follow_from_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = SelfPredictionHead(TWO, PLACE, WIDTH, Shape("mlp", seed=3)).state_dict()
    torch.manual_seed(2)
    second = SelfPredictionHead(TWO, PLACE, WIDTH, Shape("mlp", seed=3)).state_dict()
    other = SelfPredictionHead(TWO, PLACE, WIDTH, Shape("mlp", seed=4)).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["networks.0.0.weight"], other["networks.0.0.weight"])


def test_hidden_layers_are_shared_or_not() -> None:
    """Only with a hidden layer of its own does a target leave the other's prediction alone."""
    states, labels = rows(4)
    for shared in (True, False):
        head = drawn(Shape("mlp", hidden=4, shared=shared))
        head.loss(states, labels * torch.tensor([1.0, torch.nan])).backward()
        hidden = [network[0].weight.grad for network in head.networks]
        assert len(hidden) == (1 if shared else 2)
        assert float(hidden[0].abs().max()) > 0
        if not shared:
            assert float(hidden[1].abs().max()) == 0


def test_a_head_for_a_model_counts_its_layer_from_the_start(tiny_model: Model) -> None:
    head = SelfPredictionHead.of(tiny_model, TWO, Place("resid_post", -1, "template_1"))
    assert head.place.layer == 2
    assert head.d_model == 32
    assert head.fingerprint == tiny_model.fingerprint


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Place("resid_post", 3, "prompt_last"), "layers: 3 does not exist; this model has"),
        (lambda: Place("resid_post", -4, "prompt_last"), "layers: -4 does not exist"),
        (lambda: Place("resid_post", None, "prompt_last"), "layer: none is given, and site"),
        (lambda: Place("resid_post", True, "prompt_last"), "layers: True is not a whole number"),
        (lambda: Place("residual", 1, "prompt_last"), "sites: .*'residual'"),
        (lambda: Place("resid_post", 1, "last"), "positions: .*'last'"),
    ],
)
def test_a_place_that_the_model_lacks(tiny_model_of, make, message) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        SelfPredictionHead.of(tiny_model_of("llama"), TWO, make())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Target("a", "count"), "kind: 'count' of target 'a'; use binary or number"),
        (lambda: Shape("deep"), "kind: 'deep' is no head"),
        (lambda: Shape("mlp", hidden=0), "hidden: 0 is not positive"),
        (lambda: SelfPredictionHead([], PLACE, 4), "give at least one"),
        (lambda: SelfPredictionHead([TWO[0], TWO[0]], PLACE, 4), "each name once"),
        (lambda: drawn(Shape()).predict(np.zeros((2, 4))), r"shape \(2, 4\), the head reads"),
        (lambda: drawn(Shape())(torch.zeros(WIDTH)), r"shape \(5,\), the head reads \(row, 5\)"),
        (
            lambda: drawn(Shape()).loss(torch.zeros(2, WIDTH), torch.zeros(2)),
            r"labels: shape \(2,\), not \(2, 2\)",
        ),
        (
            lambda: drawn(Shape()).standardize(torch.zeros(2, WIDTH), torch.zeros(3, 2)),
            r"labels: shape \(3, 2\), not \(2, 2\)",
        ),
    ],
)
def test_bad_input_is_named_in_one_line(make, message) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)

"""A head with its trunk: the states it reads, where gradients go, and that what is served equals what is read later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from experiments.adapters import Adapters, adapted
from experiments.self_prediction.heads import SelfPredictionHead, Target
from experiments.self_prediction.joint import JointHead
from experiments.self_prediction.place import Place
from experiments.self_prediction.states import differentiable_states
from experiments.self_prediction.training import TrainSettings, train
from experiments.self_prediction.verbal import SayIt
from hooks import Model, capture, render
from tests.conftest import make_tiny_model
from tests.experiments.self_prediction.menu import QUESTION, labeled

TRAIN, VALIDATION = labeled([1, 0, 0, 1, 1, 0, 1, 0]), labeled([0, 1, 1, 0], first=8)
PLACE = Place("resid_post", 1, "prompt_last")
PLACES = [
    PLACE,
    Place("resid_post", 2, "mean_instruction"),
    Place("resid_mid", 1, "instruction_last"),
    Place("attn_out", 0, "template_1"),
    Place("mlp_out", 2, "prompt_last"),
    Place("embed", None, "instruction_last"),
    Place("final_norm", None, "prompt_last"),
]


def captured(model: Model, place: Place, part: Any = TRAIN) -> Tensor:
    rows = {}
    for read in capture(model, [item.prompt() for item in part.items], place.spec):
        rows |= dict(zip(read.ids, read.sites[place.site][:, 0, 0], strict=True))
    return torch.stack([rows[item.id] for item in part.items])


def joint(model: Model, adapters: Adapters, **settings: Any) -> JointHead:
    head = SelfPredictionHead.of(model, [Target("other"), Target("parity")], PLACE)
    head.standardize(captured(model, PLACE))
    with (
        torch.no_grad()
    ):  # as it starts, a head says nothing of its states, and nothing reaches them
        for parameter in head.parameters():
            parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()).view_as(parameter))
    return JointHead(
        model, head, adapters, TRAIN, VALIDATION, **{"batch": 4, "accumulate": 2, **settings}
    )


def words(model: Model, adapters: Adapters) -> SayIt:
    return SayIt(
        model, TRAIN, VALIDATION, [QUESTION], parameters=adapters.parameters, batch=2, seed=1
    )


def gradients(objective: JointHead | SayIt, step: int = 0) -> dict[str, Tensor | None]:
    for parameter in objective.parameters.values():
        parameter.grad = None
    for loss in objective.losses(step):
        loss.backward()  # type: ignore[no-untyped-call]
    return {name: parameter.grad for name, parameter in objective.parameters.items()}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.site)
def test_states_are_those_that_a_capture_reads_and_gradients_reach_the_trunk(
    tiny_model: Model, place: Place
) -> None:
    if place.site not in tiny_model.architecture.sites:
        pytest.skip(f"{tiny_model.name} has no {place.site}")
    rendered = [render(tiny_model, item.prompt()) for item in TRAIN.items]
    states = differentiable_states(tiny_model, rendered, place)
    torch.testing.assert_close(states.detach(), captured(tiny_model, place), atol=1e-5, rtol=1e-5)
    embedding = tiny_model.module.get_input_embeddings().weight
    (gradient,) = torch.autograd.grad(states[3].square().sum(), [embedding])
    own = sorted({*rendered[3].token_ids} - {t for one in rendered[:3] for t in one.token_ids})
    assert own
    end = {"template_1": 0, "prompt_last": 0}.get(place.position, rendered[3].spans["instruction"])
    if end == 0:  # what stands before the template reaches its tokens through attention
        assert gradient[own].any()
    assert gradient.any()


def test_no_block_above_the_place_is_run() -> None:
    model = make_tiny_model("llama")
    ran: list[int] = []
    handles = [
        block.module.register_forward_hook(lambda *_, i=i: ran.append(i))
        for i, block in enumerate(model.architecture.blocks)
    ]
    rendered = [render(model, item.prompt()) for item in TRAIN.items]
    differentiable_states(model, rendered, PLACE)
    for handle in handles:
        handle.remove()
    assert set(ran) == {0, 1}


def test_the_loss_is_the_heads_on_states_as_they_are_now() -> None:
    model = make_tiny_model("llama")
    with adapted(model, rank=2) as adapters:
        objective = joint(model, adapters, batch=8)
        with torch.no_grad():
            for parameter in adapters.parameters.values():
                parameter.add_(0.05)
        labels = torch.full((8, 2), float("nan"))
        labels[:, 1] = torch.from_numpy(TRAIN.outcome).float()
        logits = objective._head(captured(model, PLACE))[:, 1]
        expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels[:, 1])
        total = sum(float(loss.detach()) for loss in objective.losses(0))
        assert total == pytest.approx(expected.item(), rel=1e-5)
        assert objective.metrics["head_loss"] == pytest.approx(total)


def test_micro_batches_add_up_to_the_step() -> None:
    model = make_tiny_model("llama")
    with adapted(model, rank=2) as adapters:
        objective = joint(model, adapters, accumulate=1, batch=7)
        whole = gradients(objective)
        parts = gradients(joint(model, adapters, accumulate=3, batch=7))
    for name, gradient in whole.items():
        if gradient is None:
            assert parts[name] is None
        else:
            torch.testing.assert_close(parts[name], gradient, atol=1e-6, rtol=1e-4)


def test_the_heads_loss_reaches_the_blocks_up_to_its_place() -> None:
    model = make_tiny_model("llama")
    with adapted(model, rank=2) as adapters:
        found = gradients(joint(model, adapters))
    reached = {n.split(".")[3] for n, g in found.items() if g is not None and n[:5] == "trunk"}
    assert reached == {"0", "1"}
    head = [g for n, g in found.items() if n.startswith("head")]
    assert len(head) == 2
    assert all(g is not None and g.any() for g in head)


def test_with_stop_gradient_the_trunk_learns_from_the_words_alone() -> None:
    model = make_tiny_model("llama")
    with adapted(model, rank=2) as adapters:
        of_words = gradients(words(model, adapters))
        without = gradients(joint(model, adapters))
        stopped = gradients(
            joint(model, adapters, words=words(model, adapters), stop_gradient=True)
        )
        both = gradients(joint(model, adapters, words=words(model, adapters)))
    for name in of_words:
        mine, alone = stopped[f"trunk.{name}"], of_words[name]
        assert mine is not None
        assert alone is not None
        assert mine.equal(alone)
        from_head = without[f"trunk.{name}"]
        expected = alone if from_head is None else alone + from_head
        torch.testing.assert_close(both[f"trunk.{name}"], expected, atol=1e-6, rtol=1e-4)
    for name, gradient in without.items():
        if name.startswith("head"):
            assert gradient is not None
            torch.testing.assert_close(stopped[name], gradient, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("stop_gradient", [False, True])
def test_what_is_trained_foretells_and_is_served_as_it_is_read_later(stop_gradient: bool) -> None:
    model = make_tiny_model("llama")
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    with adapted(model, rank=4) as adapters:
        objective = joint(
            model,
            adapters,
            batch=8,
            words=words(model, adapters) if stop_gradient else None,
            stop_gradient=stop_gradient,
        )
        objective._validation = objective._train  # by heart: these outcomes have no rule
        head = objective._head
        trained = train(objective, TrainSettings(steps=120, learning_rate=1e-2, evaluate_every=10))
        assert trained.best_loss < 0.5  # of one that says 0.5 it is 0.69
        offline = head.predict(captured(model, PLACE))["parity"]
        assert ((offline > 0.5) == (TRAIN.outcome == 1)).all()
        head.bind(model)
        with head.attach(model) as served:
            prompts = [item.prompt() for item in TRAIN.items]
            list(capture(model, prompts, Place("resid_post", 2, "prompt_last").spec))
        online = np.array([served.predictions[prompt.id]["parity"] for prompt in prompts])
        np.testing.assert_allclose(online, offline, atol=1e-5)
    after = model.module.state_dict()
    assert all(after[name].equal(before[name]) for name in before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stop_gradient": True}, "stop_gradient: nothing is left that trains the trunk; give"),
        ({"batch": 0}, "batch: 0 is not positive"),
        ({"accumulate": 9}, "accumulate: 9 parts of 4"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    model = make_tiny_model("llama")
    with adapted(model, rank=2) as adapters, pytest.raises(ValueError, match=message):
        joint(model, adapters, **settings)


def test_a_head_for_another_task_is_refused() -> None:
    model = make_tiny_model("llama")
    head = SelfPredictionHead.of(model, [Target("refusal")], PLACE)
    with (
        adapted(model, rank=2) as adapters,
        pytest.raises(ValueError, match="head: has no target 'parity'; it has refusal"),
    ):
        JointHead(model, head, adapters, TRAIN, VALIDATION)

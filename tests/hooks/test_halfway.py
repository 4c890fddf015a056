"""Going on from a block, against reading the whole prompt under the same intervention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from hooks import Ablate, Model, Prompt, Steer, intervene, render
from hooks.halfway import _repeat_rows, go_on, read_halfway

PROMPT = Prompt.chat("p", "What is the capital of France? Yes or no?", quote="the capital")
TAIL = ("instruction_last", *(f"template_{k}" for k in range(1, 20)))


def whole(model: Model, interventions: list[Any]) -> Tensor:
    """The model's own logits for the first answer token, through the whole prompt."""
    tokens = torch.tensor([render(model, PROMPT).token_ids])
    with torch.inference_mode(), intervene(model, interventions):
        return torch.log_softmax(model.module(input_ids=tokens).logits[0, -1].float(), dim=-1)


def resumed(model: Model, halfway: Any, states: Tensor) -> Tensor:
    return torch.log_softmax(go_on(model, halfway, states), dim=-1)


def vectors(model: Model, n: int) -> Tensor:
    return torch.randn(n, model.d_model, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("cached", [True, False])
def test_many_vectors_at_once_give_what_each_gives_by_itself(
    tiny_model: Model, layer: int, cached: bool
) -> None:
    model = tiny_model
    if not cached:
        architecture = replace(model.architecture, cache_problem="made up")
        model = replace(model, architecture=architecture)
    halfway = read_halfway(model, PROMPT, layer, "instruction_last")
    assert (halfway.start == 0) is not cached
    n_tail = len(render(model, PROMPT)) - render(model, PROMPT).spans["instruction"][1] + 1
    added = vectors(model, 70)  # more than one batch
    states = halfway.states.repeat(70, 1, 1)
    states[:, -n_tail:] += added[:, None]
    found = resumed(model, halfway, states)
    for row in (0, 33, 69):
        steered = [
            Steer("resid_post", layer, added[row], positions=(name,)) for name in TAIL[:n_tail]
        ]
        torch.testing.assert_close(
            found[row], through_capture(model, steered), rtol=1e-4, atol=1e-4
        )


def through_capture(model: Model, interventions: list[Any]) -> Tensor:
    from hooks import CaptureSpec, capture

    with intervene(model, interventions):
        [batch] = capture(model, [PROMPT], CaptureSpec(sites=("final_norm",)))
    assert model.architecture.readout is not None
    with torch.inference_mode():
        logits = model.architecture.readout(batch.sites["final_norm"][:, 0, 0])
    return torch.log_softmax(logits[0], dim=-1)


def test_unchanged_states_give_the_models_own_logits(tiny_model: Model) -> None:
    for position in ("quote_last", "mean_instruction", "prompt_last"):
        halfway = read_halfway(tiny_model, PROMPT, 1, position)
        found = resumed(tiny_model, halfway, halfway.states[None])[0]
        torch.testing.assert_close(found, whole(tiny_model, []), rtol=1e-4, atol=1e-4)


def test_states_of_the_whole_prompt_can_be_ablated(tiny_model: Model) -> None:
    """From the first token on, against ablation everywhere by hooks."""
    model = replace(
        tiny_model, architecture=replace(tiny_model.architecture, cache_problem="made up")
    )
    halfway = read_halfway(model, PROMPT, 1, "prompt_last")
    unit = torch.nn.functional.normalize(vectors(model, 1)[0], dim=0)
    mean = vectors(model, 2)[1]
    ablated = halfway.states + ((mean - halfway.states) @ unit)[:, None] * unit
    found = resumed(model, halfway, ablated[None])[0]
    wanted = whole(model, [Ablate("resid_post", 1, unit, mean)])
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_the_model_is_bit_identical_afterwards_also_after_an_exception(tiny_model: Model) -> None:
    before, weights = whole(tiny_model, []), tiny_model.fingerprint["weights"]
    halfway = read_halfway(tiny_model, PROMPT, 1, "instruction_last")
    go_on(tiny_model, halfway, halfway.states[None] + 1)
    with pytest.raises(RuntimeError):
        go_on(tiny_model, halfway, halfway.states[None, :, :3])
    assert all("forward" not in vars(block.module) for block in tiny_model.architecture.blocks)
    assert torch.equal(whole(tiny_model, []), before)
    assert tiny_model.fingerprint["weights"] == weights


def test_a_layer_that_is_not_there_is_named(tiny_model: Model) -> None:
    with pytest.raises(ValueError, match="layers: 3 does not exist"):
        read_halfway(tiny_model, PROMPT, 3, "prompt_last")


@pytest.mark.parametrize("views", [True, False])
def test_what_is_held_of_one_row_is_held_of_every_row(views: bool) -> None:
    """As views, unless a layer may write into what it holds."""

    class Writing(DynamicLayer):
        pass

    layer = DynamicLayer() if views else Writing()
    keys, values = torch.randn(2, 1, 3, 5, 4)
    layer.update(keys, values)
    cache = DynamicCache()
    cache.layers = [layer]
    _repeat_rows(cache, 6, torch.device("cpu"))
    assert torch.equal(layer.keys, keys.expand(6, -1, -1, -1))
    assert torch.equal(layer.values, values.expand(6, -1, -1, -1))
    assert (layer.keys.stride(0) == 0) is views

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hooks import Ablate, CaptureSpec, Model, Patch, Prompt, Steer, capture, generate, intervene

PROMPTS = [
    Prompt.chat(f"p{index}", f"What is the {word}? Yes or no?", quote=word)
    for index, word in enumerate(("capital", "sea", "poem of the wind"))
]


def states(model: Model, site: str, layer: int, position: str = "prompt_last") -> Tensor:
    spec = CaptureSpec(sites=(site,), layers=(layer,), positions=(position,))
    rows = {
        id: row[0, 0]
        for acts in capture(model, PROMPTS, spec)
        for id, row in zip(acts.ids, acts.sites[site], strict=True)
    }
    return torch.stack([rows[prompt.id] for prompt in PROMPTS])


def direction(model: Model, seed: int = 0) -> Tensor:
    return torch.randn(model.d_model, generator=torch.Generator().manual_seed(seed))


def test_steering_adds_the_direction_at_every_site(tiny_model: Model) -> None:
    for site in model_sites(tiny_model):
        layer = 0 if site in ("embed", "final_norm") else 1
        before = states(tiny_model, site, layer)
        steer = Steer(site, layer, direction(tiny_model), 2.0)
        with intervene(tiny_model, [steer]):
            after = states(tiny_model, site, layer)
        torch.testing.assert_close(
            after, before + 2 * direction(tiny_model), rtol=1e-4, atol=1e-4, msg=site
        )
        assert torch.equal(states(tiny_model, site, layer), before)


def model_sites(model: Model) -> tuple[str, ...]:
    return model.architecture.sites


def test_steering_at_a_named_position_leaves_earlier_tokens_alone(tiny_model: Model) -> None:
    before = {p: states(tiny_model, "resid_post", 1, p) for p in ("quote_last", "prompt_last")}
    later = states(tiny_model, "resid_post", 2, "prompt_last")
    steer = Steer("resid_post", 1, direction(tiny_model), 3.0, positions=("instruction_last",))
    with intervene(tiny_model, [steer]):
        for position, wanted in before.items():
            found = states(tiny_model, "resid_post", 1, position)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        moved = states(tiny_model, "resid_post", 1, "instruction_last")
        assert not torch.allclose(states(tiny_model, "resid_post", 2, "prompt_last"), later)
    plain = states(tiny_model, "resid_post", 1, "instruction_last")
    torch.testing.assert_close(moved, plain + 3 * direction(tiny_model), rtol=1e-4, atol=1e-4)


def test_mean_ablation_gives_every_state_the_mean_component(tiny_model: Model) -> None:
    unit = direction(tiny_model) / direction(tiny_model).norm()
    before = states(tiny_model, "resid_post", 1)
    mean = before.mean(0)
    with intervene(tiny_model, [Ablate("resid_post", 1, direction(tiny_model), mean)]):
        after = states(tiny_model, "resid_post", 1)
    component = (mean @ unit).expand(len(PROMPTS))
    torch.testing.assert_close(after @ unit, component, rtol=1e-4, atol=1e-4)
    rest = before - (before @ unit)[:, None] * unit
    torch.testing.assert_close(after - (after @ unit)[:, None] * unit, rest, rtol=1e-4, atol=1e-4)


def test_ablation_without_a_direction_puts_the_mean_state_in_place(tiny_model: Model) -> None:
    for site in model_sites(tiny_model):
        layer = 0 if site in ("embed", "final_norm") else 1
        before = states(tiny_model, site, layer)
        mean = before.mean(0)
        with intervene(tiny_model, [Ablate(site, layer, mean=mean, positions=("prompt_last",))]):
            after = states(tiny_model, site, layer)
            earlier = states(tiny_model, site, layer, "quote_last")
        torch.testing.assert_close(after, mean.expand_as(after), rtol=1e-4, atol=1e-4, msg=site)
        untouched = states(tiny_model, site, layer, "quote_last")
        torch.testing.assert_close(earlier, untouched, rtol=1e-4, atol=1e-4, msg=site)


def test_ablation_to_zero_warns(tiny_model: Model) -> None:
    with pytest.warns(UserWarning, match="adds the direction"):
        ablate = Ablate("resid_post", 1, direction(tiny_model), to_zero=True)
    with intervene(tiny_model, [ablate]):
        after = states(tiny_model, "resid_post", 1)
    unit = direction(tiny_model) / direction(tiny_model).norm()
    torch.testing.assert_close(after @ unit, torch.zeros(3), rtol=0, atol=1e-4)


def test_patching_everything_before_the_last_token_moves_the_answer(tiny_model: Model) -> None:
    """A donor's last state at the last layer carries the donor's whole answer."""
    donor_states = states(tiny_model, "resid_post", 2)
    donor_norms = states(tiny_model, "final_norm", 0)
    vectors = {"p0": donor_states[1], "p2": donor_states[0]}
    with intervene(tiny_model, [Patch("resid_post", 2, vectors, ("prompt_last",))]):
        patched = states(tiny_model, "final_norm", 0)
    wanted = torch.stack([donor_norms[1], donor_norms[1], donor_norms[0]])
    torch.testing.assert_close(patched, wanted, rtol=1e-4, atol=1e-4)


def test_patching_all_positions(tiny_model: Model) -> None:
    vector = direction(tiny_model)
    with intervene(tiny_model, [Patch("resid_post", 0, {"p1": vector}, "all")]):
        after = states(tiny_model, "resid_post", 0, "mean_instruction")
    torch.testing.assert_close(after[1], vector, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(after[0], vector)


def test_interventions_compose_in_order(tiny_model: Model) -> None:
    first, second = direction(tiny_model, 0), direction(tiny_model, 1)
    mean = states(tiny_model, "resid_post", 1).mean(0)
    unit = second / second.norm()
    with intervene(
        tiny_model, [Steer("resid_post", 1, first), Ablate("resid_post", 1, second, mean)]
    ):
        ablated_last = states(tiny_model, "resid_post", 1)
    with (
        intervene(tiny_model, [Ablate("resid_post", 1, second, mean)]),
        intervene(tiny_model, [Steer("resid_post", 1, first)]),
    ):
        steered_last = states(tiny_model, "resid_post", 1)
    component = (mean @ unit).expand(3)
    torch.testing.assert_close(ablated_last @ unit, component, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(steered_last @ unit, component + first @ unit, rtol=1e-4, atol=1e-4)


def test_generation_is_steered_at_every_new_token(tiny_model: Model) -> None:
    """A strong push toward one token's unembedding makes the model write nothing else."""
    weight: Any = tiny_model.module.get_output_embeddings().weight
    token = tiny_model.tokenizer("Paris", add_special_tokens=False)["input_ids"][0]
    push = weight[token].detach() / weight[token].norm()
    plain = generate(tiny_model, PROMPTS, max_new_tokens=4)
    with intervene(tiny_model, [Steer("final_norm", 0, push, 1e4)]):
        pushed = generate(tiny_model, PROMPTS, max_new_tokens=4)
    text = tiny_model.tokenizer.decode([token] * 4)
    assert [completion.text for completion in pushed] == [text] * 3
    with intervene(tiny_model, [Steer("final_norm", 0, push, 1e4, positions=("prompt_last",))]):
        first_only = generate(tiny_model, PROMPTS, max_new_tokens=4)
    once = tiny_model.tokenizer.decode([token])
    assert all(completion.text.startswith(once) for completion in first_only)
    assert [completion.text for completion in first_only] != [text] * 3
    assert generate(tiny_model, PROMPTS, max_new_tokens=4) == plain


def test_everything_is_undone_after_an_exception(tiny_model: Model) -> None:
    before = states(tiny_model, "resid_post", 1)
    steer = Steer("resid_post", 1, direction(tiny_model), positions=("prompt_last",))
    with pytest.raises(KeyError), intervene(tiny_model, [steer]):
        raise KeyError
    assert tiny_model.n_apart == 0
    assert torch.equal(states(tiny_model, "resid_post", 1), before)


def test_bad_interventions_are_named(tiny_model: Model) -> None:
    vector = direction(tiny_model)
    for bad, message in (
        (Steer("resid", 1, vector), "sites: unknown site 'resid'"),
        (Steer("resid_post", 3, vector), "layers: 3 does not exist"),
        (Steer("resid_post", 1, vector, positions=("last",)), "positions: unknown position"),
        (Steer("resid_post", 1, vector[:3]), r"Steer: 'direction' has shape \(3,\)"),
    ):
        with pytest.raises(ValueError, match=message), intervene(tiny_model, [bad]):
            pass
    with pytest.raises(ValueError, match="mean: give the mean state"):
        Ablate("resid_post", 1, vector)
    with pytest.raises(ValueError, match="direction: has no length"):
        Ablate("resid_post", 1, torch.zeros(4), torch.zeros(4))
    named = Steer("resid_post", 1, vector, positions=("prompt_last",))
    with (
        intervene(tiny_model, [named]),
        pytest.raises(ValueError, match="mean nothing in a bare forward pass"),
    ):
        tiny_model.module(torch.tensor([[1, 2, 3]]))

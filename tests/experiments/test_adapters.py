"""Adapters: what they add, that they leave no trace, and what is refused."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from experiments.adapters import Adapters, adapted
from hooks import CaptureSpec, Model, Prompt, capture, generate, load_model
from tests.conftest import make_tiny_model

TOKENS = torch.arange(20, 44).reshape(2, 12)
PROMPTS = [Prompt.chat("one", "Will you decline the request above?")]


def logits(model: Model) -> Tensor:
    with torch.no_grad():
        found: Tensor = model.module(input_ids=TOKENS).logits
    return found


def bits(model: Model) -> dict[str, bytes]:
    return {
        name: value.detach().contiguous().view(torch.uint8).numpy().tobytes()
        for name, value in model.module.state_dict().items()
    }


def stir(adapters: Adapters, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapters.parameters.values():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))


def test_they_change_nothing_as_they_start_and_leave_no_trace(tiny_model: Model) -> None:
    module = tiny_model.module
    before, own, fingerprint = bits(tiny_model), logits(tiny_model), dict(tiny_model.fingerprint)
    names = [name for name, _ in module.named_modules()]
    trainable = [p.requires_grad for p in module.parameters()]
    spec = CaptureSpec(layers="all", positions=("prompt_last",))
    (states,) = capture(tiny_model, PROMPTS, spec)
    with adapted(tiny_model, rank=2) as adapters:
        assert logits(tiny_model).equal(own)
        stir(adapters)
        assert not torch.allclose(logits(tiny_model), own, atol=1e-2)
        (seen,) = capture(tiny_model, PROMPTS, spec)
        assert (seen.sites["resid_post"] - states.sites["resid_post"]).abs().max() > 1e-2
        generate(tiny_model, PROMPTS, max_new_tokens=3)
    assert bits(tiny_model) == before
    assert logits(tiny_model).equal(own)
    assert tiny_model.fingerprint == fingerprint
    assert [name for name, _ in module.named_modules()] == names
    assert [p.requires_grad for p in module.parameters()] == trainable
    assert not hasattr(module, "peft_config")


def test_they_are_taken_out_after_an_error_too() -> None:
    model = make_tiny_model("llama")
    before = bits(model)
    with pytest.raises(KeyError), adapted(model, rank=2) as adapters:
        adapters.parameters["no such"]
    assert not hasattr(model.module, "peft_config")
    assert bits(model) == before


def test_an_adapter_adds_twice_its_product_to_every_linear_map_of_the_blocks() -> None:
    model = make_tiny_model("llama")
    merged = make_tiny_model.__wrapped__("llama")
    with adapted(model, rank=3) as adapters:
        stir(adapters)
        with torch.no_grad():
            for path in {name.rpartition(".")[0] for name in adapters.parameters}:
                down, up = (adapters.parameters[f"{path}.{side}"] for side in "AB")
                assert down.shape[0] == up.shape[1] == 3
                merged.module.get_submodule(path).weight += 2 * up @ down
        torch.testing.assert_close(logits(model), logits(merged), atol=1e-4, rtol=1e-4)
    linear = [n for n, m in model.module.model.named_modules() if type(m) is torch.nn.Linear]
    assert {n.rpartition(".")[0] for n in adapters.parameters} == {f"model.{n}" for n in linear}


def test_gradients_reach_the_adapters_alone() -> None:
    model = make_tiny_model("llama")
    with adapted(model, rank=2, blocks=[1]) as adapters:
        assert {name.split(".")[2] for name in adapters.parameters} == {"1"}
        stir(adapters)
        model.module(input_ids=TOKENS).logits.square().mean().backward()
        assert all(p.grad is not None and p.grad.any() for p in adapters.parameters.values())
        own = {id(p) for p in adapters.parameters.values()}
        assert all(p.grad is None for p in model.module.parameters() if id(p) not in own)


def test_what_is_read_as_a_branch_carries_no_adapter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in OPT, whose `fc2` is a linear map and the site `mlp_out` at once."""
    model = make_tiny_model.__wrapped__("llama")
    blocks = model.architecture.blocks
    read = blocks[0].module.mlp.down_proj
    object.__setattr__(blocks[0], "mlp", read)
    with adapted(model, rank=2) as adapters:
        assert blocks[0].module.mlp.down_proj is read
        assert "model.layers.0.mlp.down_proj.A" not in adapters.parameters
        assert "model.layers.1.mlp.down_proj.A" in adapters.parameters


def test_they_start_as_the_seed_says() -> None:
    model = make_tiny_model("llama")

    def starts(seed: int) -> Mapping[str, Tensor]:
        with adapted(model, rank=2, seed=seed) as adapters:
            return {name: p.detach().clone() for name, p in adapters.parameters.items()}

    state = torch.get_rng_state()
    one, again, other = starts(0), starts(0), starts(1)
    assert torch.get_rng_state().equal(state)
    assert all(one[name].equal(again[name]) for name in one)
    assert not any(one[name].equal(other[name]) for name in one if name.endswith(".A"))
    assert not any(one[name].any() for name in one if name.endswith(".B"))


def test_of_a_model_in_bfloat16_they_are_in_float32() -> None:
    model = make_tiny_model.__wrapped__("llama")
    model.module.to(torch.bfloat16)
    before = bits(model)
    with adapted(model, rank=2) as adapters:
        assert {p.dtype for p in adapters.parameters.values()} == {torch.float32}
        assert logits(model).dtype == torch.bfloat16
    assert bits(model) == before


def test_saved_ones_come_back_and_those_of_others_are_refused(tmp_path: Path) -> None:
    model = make_tiny_model("llama")
    with adapted(model, rank=2) as adapters:
        stir(adapters)
        expected = logits(model)
        adapters.save(tmp_path / "mine")
    with adapted(model, rank=2, seed=5) as adapters:
        adapters.load(tmp_path / "mine")
        assert logits(model).equal(expected)
        with pytest.raises(ValueError, match=r"adapters: no file .*other\.json"):
            adapters.load(tmp_path / "other")
    refused: list[tuple[Model, dict[str, Any], str]] = [
        (model, {"rank": 3}, "is of rank 2, and these are of 3"),
        (model, {"rank": 2, "blocks": [0]}, r"is of blocks \[0, 1, 2\], and these are of \[0\]"),
        (make_tiny_model("llama", seed=1), {"rank": 2}, "is of weights '"),
    ]
    for other, settings, message in refused:
        with (
            adapted(other, **settings) as adapters,
            pytest.raises(ValueError, match=message) as error,
        ):
            adapters.load(tmp_path / "mine")
        assert "\n" not in str(error.value)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    with adapted(make_tiny_model("llama"), rank=2) as adapters:
        adapters.save(tmp_path / "mine")
        tensors = tmp_path / "mine.safetensors"
        tensors.write_bytes(tensors.read_bytes()[:-9])
        with pytest.raises(ValueError, match=r"mine\.safetensors is damaged"):
            adapters.load(tmp_path / "mine")


def test_merged_they_are_an_ordinary_folder(tiny_model: Model, tmp_path: Path) -> None:
    before, fingerprint = bits(tiny_model), dict(tiny_model.fingerprint)
    with adapted(tiny_model, rank=2) as adapters:
        stir(adapters)
        expected = logits(tiny_model)
        adapters.write_merged(tmp_path / "merged", tiny_model.tokenizer)
        assert logits(tiny_model).equal(expected)
    assert bits(tiny_model) == before
    assert tiny_model.fingerprint == fingerprint
    merged = load_model(str(tmp_path / "merged"))
    assert set(bits(merged)) == set(before)
    torch.testing.assert_close(logits(merged), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "rank: 0 is not positive"),
        ({"blocks": [3]}, "blocks: there is no block 3; .* has 0 to 2"),
        ({"blocks": [-1]}, "blocks: there is no block -1"),
        ({"blocks": []}, "blocks: no linear map in them"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    model = make_tiny_model("llama")
    with pytest.raises(ValueError, match=message), adapted(model, **settings):
        pass
    assert not hasattr(model.module, "peft_config")


def test_two_sets_at_once_are_refused_and_the_first_stays() -> None:
    model = make_tiny_model("llama")
    own = logits(model)
    with adapted(model, rank=2) as adapters:
        stir(adapters)
        expected = logits(model)
        with pytest.raises(ValueError, match="carries some already"), adapted(model, rank=2):
            pass
        assert logits(model).equal(expected)
    assert logits(model).equal(own)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with (
        pytest.raises(ValueError, match=r"pip install 'selfprobe\[lora\]'"),
        adapted(make_tiny_model("llama")),
    ):
        pass

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import hooks.backends.transformer_lens as transformer_lens_backend
from hooks import CaptureSpec, Model, Prompt, load_model, render
from hooks.agreement import gap, widest_gap
from hooks.backends import get_backend
from hooks.backends.transformer_lens import TransformerLensBackend
from hooks.backends.twin import twin
from hooks.batching import padded_batch, shared_batch

TEXTS = ("What is the capital of France?", "What is", "Write a poem about the wind. Do not rhyme.")
POSITIONS = ("mean_instruction", "instruction_last", "prompt_last")


@pytest.fixture(scope="module")
def half() -> Model:
    """The embedded model in bfloat16, whose largest elements are a hundred times all others."""
    return load_model("smollm2-135m", dtype="bfloat16", device="cpu")


Read = Callable[..., dict[str, Tensor]]


@pytest.fixture(scope="module")
def read(half: Model) -> Read:
    prompts = sorted(
        (render(half, Prompt.chat(text, text)) for text in TEXTS), key=lambda p: p.token_ids
    )
    spec = CaptureSpec(half.architecture.sites, positions=POSITIONS).resolve(half.n_layers)

    def read(layout: str, model: Model = half) -> dict[str, Tensor]:
        batches = {
            "alone": [padded_batch([prompt], half.pad_id) for prompt in prompts],
            "left": [padded_batch(prompts, half.pad_id, "left")],
            "right": [padded_batch(prompts, half.pad_id, "right")],
            "shared": [shared_batch([prompts], half.pad_id)],
        }[layout]
        states = [get_backend("torch").read(model, b, spec, logits=False).sites for b in batches]
        return {site: torch.cat([each[site] for each in states]) for site in spec.sites}

    return read


def eager(model: Model) -> Model:
    module: Any = twin(model.module)
    module.set_attn_implementation("eager")
    return Model.from_module(module, model.tokenizer, name="eager", weights_id="eager")


def test_rounding_in_half_precision_is_explained(half: Model, read: Read) -> None:
    alone = read("alone")
    widest = [widest_gap(read(layout), alone, half.dtype) for layout in ("left", "right", "shared")]
    widest.append(widest_gap(read("right", eager(half)), read("right"), half.dtype))
    assert all(one.explained for one in widest), widest
    assert max(one.difference for one in widest) > 0.02


@pytest.mark.parametrize(
    ("read_at", "site"),
    [("resid_pre", "resid_mid"), ("resid_mid", "resid_post"), ("resid_mid", "resid_pre")],
)
def test_a_wrong_site_is_an_error_in_half_precision_at_every_layer(
    half: Model, read: Read, read_at: str, site: str
) -> None:
    found, wanted = read("left", eager(half)), read("alone")  # With all of the rounding, too.
    for layer in range(half.n_layers):
        one = gap(found[read_at][:, layer], wanted[site][:, layer], half.dtype)
        assert not one.explained, (layer, one)


@pytest.mark.parametrize("site", ["attn_out", "mlp_out"])
def test_a_twentieth_more_is_an_error_in_half_precision_at_every_layer(
    half: Model, read: Read, site: str
) -> None:
    states = read("right")[site]
    for layer in range(half.n_layers):
        assert not gap(1.05 * states[:, layer], states[:, layer], half.dtype).explained


def test_a_bridge_that_reads_a_wrong_site_at_one_layer_is_refused_in_half_precision(
    half: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = transformer_lens_backend._hook_name

    def wrong(point: tuple[str, int]) -> str:
        return name(("resid_pre", 25) if point == ("resid_mid", 25) else point)

    TransformerLensBackend().check(half, half.architecture.sites)
    monkeypatch.setattr(transformer_lens_backend, "_hook_name", wrong)
    backend = TransformerLensBackend()
    with pytest.raises(ValueError, match=r"gives no 'resid_mid' .* is off by"):
        backend.check(half, ("resid_mid",))


def test_what_is_not_finite_is_never_explained() -> None:
    wanted = torch.ones(4, 8)
    for value in (float("nan"), float("inf")):
        found = wanted.clone()
        found[2, 3] = value
        one = gap(found, wanted, torch.float32)
        assert (one.excess, one.difference) == (float("inf"), float("inf"))


def test_a_huge_element_hides_nothing() -> None:
    wanted = torch.ones(4, 512)
    wanted[0, 7] = 1e5
    found = wanted.clone()
    found[1:] *= 1.05
    assert not gap(found, wanted, torch.bfloat16).explained
    assert gap(wanted, wanted, torch.bfloat16).difference == 0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as tf
from torch import nn

from hooks import CaptureSpec, Model, Prompt, capture, logit_lens, option_logprobs, spellings
from hooks.architecture import find_blocks, find_final_norm

SIZES: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
GATED: dict[str, Any] = {**SIZES, "intermediate_size": 48, "num_key_value_heads": 2}
BRANCHES = ("resid_mid", "attn_out", "mlp_out")

# config, sites that must be missing, whether prefixes may be shared
FAMILIES: dict[str, tuple[Any, tuple[str, ...], bool]] = {
    "qwen2": (lambda: tf.Qwen2Config(**GATED), (), True),
    "qwen3": (lambda: tf.Qwen3Config(**GATED, head_dim=8), (), True),
    "phi3": (lambda: tf.Phi3Config(**GATED, pad_token_id=0), (), True),
    "mistral": (lambda: tf.MistralConfig(**GATED, sliding_window=16), (), True),
    "gemma": (lambda: tf.GemmaConfig(**GATED, head_dim=8), (), True),
    "gemma2": (lambda: tf.Gemma2Config(**GATED, head_dim=8), (), True),
    "olmo2": (lambda: tf.Olmo2Config(**GATED), (), True),
    "cohere": (lambda: tf.CohereConfig(**GATED, logit_scale=0.25), ("resid_mid",), True),
    "granite": (
        lambda: tf.GraniteConfig(**GATED, residual_multiplier=0.5, logits_scaling=4.0),
        BRANCHES,
        True,
    ),
    "mixtral": (lambda: tf.MixtralConfig(**GATED, num_local_experts=2), (), True),
    "gptj": (
        lambda: tf.GPTJConfig(n_embd=32, n_head=4, n_layer=2, rotary_dim=4),
        ("resid_mid",),
        True,
    ),
    "neox_sequential": (
        lambda: tf.GPTNeoXConfig(**SIZES, intermediate_size=48, use_parallel_residual=False),
        (),
        True,
    ),
    "bloom": (lambda: tf.BloomConfig(hidden_size=32, n_head=4, n_layer=2), (), False),
    "falcon": (
        lambda: tf.FalconConfig(**SIZES, multi_query=True, parallel_attn=True),
        ("resid_mid",),
        True,
    ),
    "falcon_sequential": (
        lambda: tf.FalconConfig(**SIZES, parallel_attn=False, alibi=True),
        (),
        False,
    ),
    "opt": (lambda: tf.OPTConfig(**SIZES, ffn_dim=48, word_embed_proj_dim=32), (), True),
    "opt_post_norm": (
        lambda: tf.OPTConfig(
            **SIZES, ffn_dim=48, word_embed_proj_dim=32, do_layer_norm_before=False
        ),
        (*BRANCHES, "final_norm"),
        True,
    ),
}


@pytest.fixture(params=FAMILIES)
def family(
    request: pytest.FixtureRequest,
    tokenizer_of: Callable[..., Any],
    module_of: Callable[..., Any],
) -> tuple[Model, tuple[str, ...], bool]:
    make_config, missing, shares = FAMILIES[request.param]
    tokenizer = tokenizer_of(None, bos="<s>", eos="</s>")
    config = make_config()
    config.vocab_size = len(tokenizer)
    config.pad_token_id = config.pad_token_id if config.pad_token_id is not None else 0
    model = Model.from_module(module_of(config), tokenizer, name=request.param)
    return model, missing, shares


def test_every_family_is_found_proved_and_read(
    family: tuple[Model, tuple[str, ...], bool],
) -> None:
    model, missing, shares = family
    architecture = model.architecture
    assert set(architecture.unavailable) == set(missing)
    assert (architecture.sharing_problem == "") == shares

    prompts = [Prompt(id=text, text=text) for text in ("The sea", "The sea and", "What is yes?")]
    spec = CaptureSpec(sites=architecture.sites, positions=("mean_instruction", "prompt_last"))
    for acts in capture(model, prompts, spec):
        sites = acts.sites
        if "attn_out" in sites:
            total = sites["resid_pre"] + sites["attn_out"] + sites["mlp_out"]
            torch.testing.assert_close(sites["resid_post"], total, rtol=1e-5, atol=1e-5)
        for row, text in enumerate(acts.ids):
            bos = model.tokenizer.bos_token_id
            ids = [bos, *model.tokenizer(text, add_special_tokens=False)["input_ids"]]
            with torch.inference_mode():
                output = model.module(torch.tensor([ids]), output_hidden_states=True)
            torch.testing.assert_close(
                sites["resid_post"][row, 0, 1], output.hidden_states[1][0, -1], rtol=0, atol=5e-5
            )
            if not architecture.readout_problem:
                logits = logit_lens(model, sites["resid_post"][row, -1, 1])
                torch.testing.assert_close(logits, output.logits[0, -1], rtol=1e-4, atol=1e-4)
    if not architecture.readout_problem:
        found = option_logprobs(model, prompts[-1:], {"yes": ["yes"]})
        logprobs = torch.log_softmax(output.logits[0, -1], -1)
        first = {
            model.tokenizer(spelling, add_special_tokens=False)["input_ids"][0]
            for spelling in spellings("yes")
        }
        first = {token for token in first if model.tokenizer.decode([token]).strip()}
        wanted = logprobs[sorted(first)].logsumexp(0)
        assert float(found["yes"][0]) == pytest.approx(float(wanted), abs=1e-4)


def test_a_missing_site_is_refused_with_its_reason(tiny_model_of: Callable[..., Model]) -> None:
    model = tiny_model_of("gpt_neox")
    with pytest.raises(ValueError, match="'resid_mid' does not exist in this model: its attention"):
        capture(model, [Prompt(id="a", text="yes")], CaptureSpec(sites=("resid_mid",)))


def test_a_window_shorter_than_a_prompt_switches_sharing_off(
    tokenizer_of: Callable[..., Any], module_of: Callable[..., Any]
) -> None:
    tokenizer = tokenizer_of(None, bos="<s>", eos="</s>")
    config = tf.MistralConfig(**GATED, sliding_window=4, vocab_size=len(tokenizer))
    model = Model.from_module(module_of(config), tokenizer, name="window")
    assert model.architecture.window == 4
    text = "The capital of France is Paris. Will you answer yes or no?"
    prompts = [Prompt(id=str(n), text=text[:n]) for n in (3, 20, 40, len(text))]
    for acts in capture(model, prompts, CaptureSpec(layers=(0,))):
        for row, id in enumerate(acts.ids):
            ids = tokenizer(text[: int(id)], add_special_tokens=False)["input_ids"]
            with torch.inference_mode():
                output = model.module(
                    torch.tensor([[tokenizer.bos_token_id, *ids]]), output_hidden_states=True
                )
            torch.testing.assert_close(
                acts.sites["resid_post"][row, 0, 0],
                output.hidden_states[1][0, -1],
                rtol=0,
                atol=5e-5,
            )


def test_blocks_and_norm_are_found_by_shape_under_any_name() -> None:
    class Strange(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vision_tower = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
            self.trunk = nn.Module()
            self.trunk.rungs = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
            self.trunk.closing = nn.LayerNorm(2)

    strange = Strange()
    path, blocks = find_blocks(strange, 3)
    assert path == "trunk.rungs"
    assert blocks is strange.trunk.rungs
    assert find_final_norm(strange.trunk, 2) is strange.trunk.closing
    with pytest.raises(ValueError, match="no list of 4 decoder blocks in Strange"):
        find_blocks(strange, 4)

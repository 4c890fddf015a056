"""Tiny random models of many families, and an independent reference for everything read out of them.

The reference never uses the house's finding, hooks or batching: modules are named by hand below, a
prompt is run alone and unpadded, and `output_hidden_states` says what the residual stream is.

    python -m tests.hooks.parity      prints the largest error of every family as a Markdown table
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers as tf
from torch import Tensor

from hooks import CaptureSpec, Model
from hooks.backends import get_backend
from hooks.batching import Batch, padded_batch, shared_batch
from hooks.prompts import Rendered
from tests.conftest import make_module, make_tokenizer

BRANCHES = ("resid_mid", "attn_out", "mlp_out")
PARALLEL = ("resid_mid",)
POSITIONS = ("mean_instruction", "instruction_last", "template_1", "prompt_last")
# Half of the prompts are longer than the windows of the families that have one (8 tokens).
LENGTHS = (2, 5, 7, 8, 12, 30)

_SIZES: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
_GATED: dict[str, Any] = {**_SIZES, "intermediate_size": 48, "num_key_value_heads": 2}
_HEADS: dict[str, Any] = {**_GATED, "head_dim": 8}
_GPT: dict[str, Any] = {"n_embd": 32, "n_head": 4, "n_layer": 2}
_SLIDING: dict[str, Any] = {"sliding_window": 8}
_MIXED: dict[str, Any] = {**_SLIDING, "layer_types": ["sliding_attention", "full_attention"]}
_EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}
_LATENT: dict[str, Any] = {
    **_SIZES,
    "num_key_value_heads": 4,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
}
_OPT: dict[str, Any] = {**_SIZES, "ffn_dim": 48, "word_embed_proj_dim": 32}
_DELTA: dict[str, Any] = {
    **_HEADS,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}


@dataclass(frozen=True)
class Family:
    """A family's config, where its parts are, and what is expected of it.

    Attributes:
        config: name of the config class in transformers.
        sizes: what it is built with.
        attention: per block the module (of several names, the one that exists) that adds attention.
        mlp: the same of the MLP.
        mid: the module that is called with the stream between the two, or "".
        blocks: path of the decoder blocks.
        missing: sites that must be unavailable.
        shares: whether prompts must be able to share prefixes.
        sdpa: whether transformers has sdpa for it.
        hidden_states: whether transformers gives its hidden states in the usual order.
    """

    config: str
    sizes: dict[str, Any]
    attention: tuple[str, ...] = ("self_attn",)
    mlp: tuple[str, ...] = ("mlp",)
    mid: str = "post_attention_layernorm"
    blocks: str = "model.layers"
    missing: tuple[str, ...] = ()
    shares: bool = True
    sdpa: bool = True
    hidden_states: bool = True


def _post_normed(config: str, sizes: dict[str, Any], **more: Any) -> Family:
    norms: dict[str, Any] = {
        "attention": ("post_attention_layernorm",),
        "mlp": ("post_feedforward_layernorm",),
        "mid": "mlp",
    }
    return Family(config, sizes, **{**norms, **more})


def _gpt(config: str, sizes: dict[str, Any], **more: Any) -> Family:
    names: dict[str, Any] = {"attention": ("attn",), "mid": "ln_2", "blocks": "transformer.h"}
    return Family(config, sizes, **{**names, **more})


def _neox(sizes: dict[str, Any], **more: Any) -> Family:
    sizes = {**_SIZES, "intermediate_size": 48, **sizes}
    return Family(
        "GPTNeoXConfig", sizes, attention=("attention",), blocks="gpt_neox.layers", **more
    )


def _falcon(sizes: dict[str, Any], **more: Any) -> Family:
    sizes = {**_SIZES, **sizes}
    return Family(
        "FalconConfig", sizes, attention=("self_attention",), blocks="transformer.h", **more
    )


FAMILIES: dict[str, Family] = {
    "gpt2": _gpt("GPT2Config", {**_GPT, "n_positions": 256}),
    "llama": Family("LlamaConfig", _GATED),
    "mistral": Family("MistralConfig", {**_GATED, **_SLIDING}),
    "ministral": Family("MinistralConfig", {**_HEADS, **_MIXED}),
    "qwen2": Family("Qwen2Config", _GATED),
    "qwen2_sliding": Family("Qwen2Config", {**_GATED, **_MIXED, "use_sliding_window": True}),
    "qwen3": Family("Qwen3Config", _HEADS),
    "gemma": Family("GemmaConfig", _HEADS),
    "gemma2": _post_normed(
        "Gemma2Config", {**_HEADS, **_MIXED}, mid="pre_feedforward_layernorm", sdpa=False
    ),
    "gemma3": _post_normed(
        "Gemma3TextConfig", {**_HEADS, **_MIXED}, mid="pre_feedforward_layernorm"
    ),
    "gemma4": Family(
        "Gemma4TextConfig",
        {
            **_HEADS,
            **_MIXED,
            "vocab_size_per_layer_input": 400,
            "hidden_size_per_layer_input": 8,
            "global_head_dim": 8,
            "num_kv_shared_layers": 0,
        },
        missing=BRANCHES,
    ),
    "vaultgemma": Family(
        "VaultGemmaConfig", {**_HEADS, **_MIXED}, mid="pre_feedforward_layernorm", sdpa=False
    ),
    "gpt_neox": _neox({}, missing=PARALLEL),
    "gpt_neox_sequential": _neox({"use_parallel_residual": False}),
    "phi": Family("PhiConfig", _GATED, missing=PARALLEL),
    "phi3": Family("Phi3Config", {**_GATED, **_SLIDING}),
    "opt": Family(
        "OPTConfig", _OPT, mlp=("fc2",), mid="final_layer_norm", blocks="model.decoder.layers"
    ),
    "opt_post_norm": Family(
        "OPTConfig",
        {**_OPT, "do_layer_norm_before": False},
        blocks="model.decoder.layers",
        missing=(*BRANCHES, "final_norm"),
    ),
    "bloom": Family(
        "BloomConfig",
        {"hidden_size": 32, "n_head": 4, "n_layer": 2},
        attention=("self_attention.dense",),
        mlp=("mlp.dense_4h_to_h",),
        blocks="transformer.h",
        shares=False,
        sdpa=False,
    ),
    "falcon": _falcon({"multi_query": True, "parallel_attn": True}, missing=PARALLEL),
    "falcon_new": _falcon({"new_decoder_architecture": True, "num_kv_heads": 2}, missing=PARALLEL),
    "falcon_alibi": _falcon({"parallel_attn": False, "alibi": True}, shares=False),
    "mpt": Family(
        "MptConfig",
        {"d_model": 32, "n_heads": 4, "n_layers": 2},
        attention=("attn",),
        mlp=("ffn.down_proj",),
        mid="norm_2",
        blocks="transformer.blocks",
        shares=False,
        sdpa=False,
    ),
    "olmo": Family("OlmoConfig", _GATED),
    "olmo2": _post_normed("Olmo2Config", _GATED),
    "olmo3": _post_normed("Olmo3Config", {**_GATED, **_MIXED}),
    "exaone4": _post_normed("Exaone4Config", {**_HEADS, **_MIXED}),
    "olmoe": Family("OlmoeConfig", {**_GATED, **_EXPERTS}),
    "mixtral": Family("MixtralConfig", {**_GATED, "num_local_experts": 4}),
    "qwen2_moe": Family("Qwen2MoeConfig", {**_GATED, **_EXPERTS}),
    "qwen3_moe": Family("Qwen3MoeConfig", {**_HEADS, **_EXPERTS}),
    "phimoe": Family("PhimoeConfig", {**_GATED, **_SLIDING, "num_local_experts": 4}),
    "gpt_oss": Family(
        "GptOssConfig",
        {**_HEADS, **_MIXED, "num_local_experts": 4, "num_experts_per_tok": 2},
        sdpa=False,
    ),
    "granitemoe": Family(
        "GraniteMoeConfig", {**_GATED, "num_local_experts": 4}, mlp=("block_sparse_moe",)
    ),
    "deepseek_v3": Family("DeepseekV3Config", _LATENT),
    "llama4": Family(
        "Llama4TextConfig",
        {
            **_HEADS,
            "intermediate_size_mlp": 48,
            "num_local_experts": 4,
            "attention_chunk_size": 8,
            "layer_types": ["chunked_attention", "full_attention"],
        },
        mlp=("feed_forward",),
    ),
    "granite": Family("GraniteConfig", {**_GATED, "logits_scaling": 4.0}),
    "granite_scaled": Family(
        "GraniteConfig",
        {**_GATED, "residual_multiplier": 0.5, "embedding_multiplier": 3.0},
        missing=BRANCHES,
    ),
    "cohere": Family("CohereConfig", {**_GATED, "logit_scale": 0.25}, missing=PARALLEL),
    "cohere2": Family("Cohere2Config", {**_HEADS, **_MIXED}, missing=PARALLEL),
    "smollm3": Family("SmolLM3Config", {**_GATED, "no_rope_layers": [1, 0]}),
    "stablelm": Family("StableLmConfig", _GATED),
    "stablelm_parallel": Family(
        "StableLmConfig", {**_GATED, "use_parallel_residual": True}, missing=PARALLEL
    ),
    "starcoder2": Family("Starcoder2Config", {**_GATED, **_SLIDING}),
    "nemotron": Family("NemotronConfig", _HEADS),
    "glm": Family("GlmConfig", _HEADS),
    "glm4": Family(
        "Glm4Config",
        _HEADS,
        attention=("post_self_attn_layernorm",),
        mlp=("post_mlp_layernorm",),
    ),
    "gptj": _gpt("GPTJConfig", {**_GPT, "rotary_dim": 4}, missing=PARALLEL),
    "gpt_neo": _gpt(
        "GPTNeoConfig",
        {
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 8,
        },
        shares=False,
        sdpa=False,
    ),
    "gpt_bigcode": _gpt("GPTBigCodeConfig", {**_GPT, "n_positions": 256}),
    "xglm": Family(
        "XGLMConfig",
        {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 48},
        mlp=("fc2",),
        mid="final_layer_norm",
        sdpa=False,
    ),
    "ctrl": Family(
        "CTRLConfig",
        {**_GPT, "dff": 48, "n_positions": 256},
        attention=("multi_head_attention.dense",),
        mlp=("ffn.2",),
        mid="layernorm2",
        blocks="transformer.h",
    ),
    "seed_oss": Family("SeedOssConfig", _HEADS),
    "apertus": Family("ApertusConfig", _GATED, mid="feedforward_layernorm"),
    "lfm2": Family(
        "Lfm2Config",
        {**_GATED, "layer_types": ["conv", "full_attention"]},
        attention=("conv", "self_attn"),
        mlp=("feed_forward",),
        mid="ffn_norm",
        shares=False,
    ),
    "qwen3_next": Family(
        "Qwen3NextConfig",
        {**_DELTA, **_EXPERTS},
        attention=("linear_attn", "self_attn"),
        shares=False,
    ),
    "jamba": Family(
        "JambaConfig",
        {
            **_GATED,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "num_experts": 4,
            "mamba_dt_rank": 8,
        },
        attention=("mamba", "self_attn"),
        mlp=("feed_forward",),
        mid="pre_ff_layernorm",
        shares=False,
    ),
    "mamba": Family(
        "MambaConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
        blocks="backbone.layers",
        missing=BRANCHES,
        shares=False,
        sdpa=False,
        hidden_states=False,
    ),
}

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "rwkv": (
        "RwkvConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32},
        "padding on the left changes the states of RwkvForCausalLM",
    ),
    "recurrent_gemma": (
        "RecurrentGemmaConfig",
        {**_GATED, "lru_width": 32},
        "padding on the left changes the states of RecurrentGemmaForCausalLM",
    ),
    "gemma3n": (
        "Gemma3nTextConfig",
        {
            **_HEADS,
            **_MIXED,
            "num_kv_shared_layers": 0,
            "vocab_size_per_layer_input": 400,
            "hidden_size_per_layer_input": 8,
            "laurel_rank": 8,
            "activation_sparsity_pattern": [0.0, 0.0],
        },
        r"block 0 of Gemma3nForCausalLM passes on \(4, 1, 8, 32\), not \[row, slot, d_model\]",
    ),
}

# Of the named models, which are loaded and not built.
REAL: dict[str, Family] = {
    "smollm2-135m": Family("", {}),
    "gemma3-270m": _post_normed("", {}, mid="pre_feedforward_layernorm"),
}

VARIANTS = [
    (name, attention)
    for name, family in FAMILIES.items()
    for attention in (("eager", "sdpa") if family.sdpa else ("eager",))
]


def long_rope(switch: int) -> dict[str, Any]:
    """Return sizes of a model that beyond a length takes other rotary frequencies, for all of a batch."""
    return {
        **_GATED,
        "max_position_embeddings": 256,
        "original_max_position_embeddings": switch,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10_000.0,
            "short_factor": [1.0] * 4,
            "long_factor": [4.0] * 4,
            "partial_rotary_factor": 1.0,
            "original_max_position_embeddings": switch,
        },
    }


def module_of(config_name: str, sizes: dict[str, Any], attention: str = "eager") -> Any:
    """Build a tiny random module; every parameter is random, norms and biases too."""
    config = getattr(tf, config_name)(**sizes, vocab_size=len(tokenizer()), pad_token_id=0)
    config.bos_token_id = config.eos_token_id = None
    config._attn_implementation = attention
    return make_module(config)


@cache
def model_of(name: str, attention: str) -> Model:
    """Build a family's tiny model once."""
    family = FAMILIES[name]
    module = module_of(family.config, family.sizes, attention)
    return Model.from_module(module, tokenizer(), name=name, weights_id=name)


@cache
def tokenizer() -> Any:
    """Train the tokenizer of all these models once."""
    return make_tokenizer(None, bos="<s>", eos="</s>")


def ragged_prompts(model: Model, lengths: Sequence[int] = LENGTHS) -> list[Rendered]:
    """Draw prompts of random tokens, each beginning like the others, sorted by their tokens."""
    generator = torch.Generator().manual_seed(0)
    vocabulary = model.module.get_input_embeddings().weight.shape[0]

    def draw(n: int) -> list[int]:
        return torch.randint(3, vocabulary, (n,), generator=generator).tolist()

    common = draw(max(lengths))
    prompts = []
    for length in lengths:
        shared = (length + 1) // 2
        tokens = (*common[:shared], *draw(length - shared))
        prompts.append(Rendered(str(length), tokens, {"instruction": (0, shared)}))
    return sorted(prompts, key=lambda prompt: prompt.token_ids)


def layouts_of(model: Model, prompts: Sequence[Rendered]) -> dict[str, Batch]:
    """Lay ragged prompts out in every way that the model allows."""
    layouts = {
        "left": padded_batch(prompts, model.pad_id, "left"),
        "right": padded_batch(prompts, model.pad_id, "right"),
    }
    if not model.architecture.sharing_problem:
        window = model.architecture.window or max(map(len, prompts))
        row = [prompt for prompt in prompts if len(prompt) <= window]
        layouts["shared"] = shared_batch([row], model.pad_id)
    return layouts


def reference(model: Model, family: Family, tokens: Sequence[int]) -> dict[str, Tensor]:
    """Run one prompt alone and unpadded: per site `[layer, token, d_model]`, and `logits`."""
    blocks = list(model.module.get_submodule(family.blocks))
    seen: dict[tuple[str, int], Tensor] = {}
    with ExitStack() as stack:
        for layer, block in enumerate(blocks):
            stack.enter_context(_keeping(seen, "resid_pre", layer, block, before=True))
            stack.enter_context(_keeping(seen, "resid_post", layer, block))
            if "attn_out" not in family.missing:
                for site, names in (("attn_out", family.attention), ("mlp_out", family.mlp)):
                    branch = _first_of(block, names)
                    stack.enter_context(_keeping(seen, site, layer, branch))
            if "resid_mid" not in family.missing:
                mid = block.get_submodule(family.mid)
                stack.enter_context(_keeping(seen, "resid_mid", layer, mid, before=True))
        with torch.inference_mode():
            output = model.module(
                input_ids=torch.tensor([list(tokens)]), output_hidden_states=True, use_cache=False
            )
    sites = dict.fromkeys(site for site, _ in seen)
    states = {
        site: torch.stack(
            [seen[site, layer].reshape(len(tokens), -1) for layer in range(len(blocks))]
        )
        for site in sites
    }
    if family.hidden_states:
        hidden = torch.stack([layer[0] for layer in output.hidden_states])
        # transformers' own account of the stream, but for the last block's output before the norm.
        torch.testing.assert_close(states["resid_pre"], hidden[:-1], rtol=0, atol=0)
        torch.testing.assert_close(states["resid_post"][:-1], hidden[1:-1], rtol=0, atol=0)
        states["final_norm"] = hidden[-1:]
    states["embed"] = states["resid_pre"][:1]
    states["logits"] = output.logits[0, -1].float()
    return states


@contextmanager
def _keeping(
    seen: dict[tuple[str, int], Tensor], site: str, layer: int, module: Any, before: bool = False
) -> Iterator[None]:
    def keep(value: Any) -> None:
        first = value[0] if isinstance(value, tuple | list) else value
        seen[site, layer] = first.detach().clone()

    if before:
        handle = module.register_forward_pre_hook(
            lambda _, args, kwargs: keep(args[0] if args else kwargs["hidden_states"]),
            with_kwargs=True,
        )
    else:
        handle = module.register_forward_hook(lambda _, __, output: keep(output))
    try:
        yield
    finally:
        handle.remove()


def _first_of(block: Any, names: Sequence[str]) -> Any:
    present = dict(block.named_modules())
    return next(present[name] for name in names if name in present)


def at_positions(states: Tensor, prompt: Rendered) -> Tensor:
    """Pick and average the tokens of `POSITIONS`: `[layer, position, d_model]`."""
    start, end = prompt.spans["instruction"]
    rows = (states[:, start:end].mean(1), states[:, end - 1], states[:, end], states[:, -1])
    return torch.stack(rows, dim=1)


def error_of(found: Tensor, wanted: Tensor) -> float:
    """Return the largest difference of a vector, over the larger of 1 and its largest element."""
    scale = wanted.abs().amax(-1, keepdim=True).clamp_min(1.0)
    return float(((found - wanted).abs() / scale).max())


def largest_errors(
    model: Model, family: Family, lengths: Sequence[int] = LENGTHS
) -> dict[tuple[str, str], float]:
    """Return the largest error by layout and by site (and `logits`, `sum`) of the torch backend."""
    prompts = ragged_prompts(model, lengths)
    wanted = {prompt.id: reference(model, family, prompt.token_ids) for prompt in prompts}
    sites = model.architecture.sites
    spec = CaptureSpec(sites=sites, positions=POSITIONS).resolve(model.n_layers)
    logits = not model.architecture.readout_problem
    errors: dict[tuple[str, str], float] = {}

    def note(layout: str, site: str, found: Tensor, right: Tensor) -> None:
        error = error_of(found, right)
        errors[layout, site] = max(error, errors.get((layout, site), 0.0))

    for layout, batch in layouts_of(model, prompts).items():
        states = get_backend("torch").read(model, batch, spec, logits=logits)
        for row, prompt in enumerate(batch.prompts):
            right = wanted[prompt.id]
            for site in sites:
                if site in right:
                    note(layout, site, states.sites[site][row], at_positions(right[site], prompt))
            if "attn_out" in sites:
                total = sum(states.sites[s][row] for s in ("resid_pre", "attn_out", "mlp_out"))
                assert isinstance(total, Tensor)
                note(layout, "sum", total, at_positions(right["resid_post"], prompt))
            if states.slot_logits is not None:
                note(layout, "logits", states.slot_logits[row], right["logits"])
    return errors


def _main(write: Callable[[str], object] = print) -> None:
    write("| family | attention | left | right | shared prefixes | unavailable |")
    write("|---|---|---:|---:|---:|---|")
    for name, attention in VARIANTS:
        model = model_of(name, attention)
        errors = largest_errors(model, FAMILIES[name])
        cells = []
        for layout in ("left", "right", "shared"):
            found = [error for (of, _), error in errors.items() if of == layout]
            cells.append(f"{max(found):.0e}" if found else "no")
        missing = ", ".join(FAMILIES[name].missing) or "-"
        write(f"| {name} | {attention} | {' | '.join(cells)} | {missing} |")


if __name__ == "__main__":
    _main()

"""Models that every test may use: four tiny random ones that exist only in memory, and a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    PreTrainedTokenizerFast,
)

from hooks import Model, load_model

FAMILIES = ("gpt2", "llama", "gpt_neox", "gemma3")

_CORPUS = (
    "What is the capital of France? The capital of France is Paris.",
    "Please write a short poem about the sea and the wind, and do not rhyme.",
    "You are a helpful assistant. Answer yes or no, in one word. Yes. No. yes no A B",
    "user assistant system model human quote: will you decline the request above?",
)
_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_LLAMA = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}] {{ m['content'] | trim }} "
    "{% if m['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
_NO_SYSTEM = (
    "{% for m in messages %}{% if m['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{% set first = messages[0]['content'] + '\n\n' %}{% set turns = messages[1:] %}"
    "{% else %}{% set first = '' %}{% set turns = messages %}{% endif %}"
    "{% for m in turns %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
    "{{ first if loop.first else '' }}{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
_SIZES: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 3}


def make_tokenizer(
    template: str | None, *, bos: str | None, eos: str, pad: str | None = None, extra: str = ""
) -> PreTrainedTokenizerFast:
    """Train a byte-level tokenizer of about 400 tokens that exists only in memory."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = list(dict.fromkeys(token for token in (bos, eos, pad, *extra.split()) if token))
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=bos, eos_token=eos, pad_token=pad
    )
    fast.chat_template = template
    return fast


def make_module(config: Any, *, seed: int = 0) -> Any:
    """Build a random model whose norms and biases are random too, so that no term is trivial."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return module


@cache
def make_tiny_model(family: str, seed: int = 0) -> Model:
    """Build one of the four tiny random models: 3 layers, 32 dimensions."""
    if family == "gpt2":
        tokenizer = make_tokenizer(
            _CHATML, bos="<|endoftext|>", eos="<|endoftext|>", extra="<|im_start|> <|im_end|>"
        )
        config: Any = GPT2Config(n_embd=32, n_head=4, n_layer=3, n_positions=256)
    elif family == "llama":
        tokenizer = make_tokenizer(_LLAMA, bos="<s>", eos="</s>")
        config = LlamaConfig(
            **_SIZES, intermediate_size=64, num_key_value_heads=2, max_position_embeddings=256
        )
    elif family == "gpt_neox":
        tokenizer = make_tokenizer(
            _NO_SYSTEM, bos="<|endoftext|>", eos="<|endoftext|>", pad="<|padding|>"
        )
        config = GPTNeoXConfig(**_SIZES, intermediate_size=64, max_position_embeddings=256)
    elif family == "gemma3":
        tokenizer = make_tokenizer(
            _GEMMA,
            bos="<bos>",
            eos="<eos>",
            pad="<pad>",
            extra="<start_of_turn> <end_of_turn>",
        )
        config = Gemma3TextConfig(
            **_SIZES,
            intermediate_size=64,
            num_key_value_heads=2,
            head_dim=8,
            max_position_embeddings=256,
            sliding_window=128,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        )
    else:
        raise ValueError(f"unknown family {family!r}")
    config.vocab_size = len(tokenizer)
    config.bos_token_id = tokenizer.bos_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config.pad_token_id = tokenizer.pad_token_id
    return Model.from_module(make_module(config, seed=seed), tokenizer, name=f"tiny-{family}")


@pytest.fixture(params=FAMILIES)
def tiny_model(request: pytest.FixtureRequest) -> Model:
    """Each of the four tiny random models in turn."""
    return make_tiny_model(request.param)


@pytest.fixture(scope="session")
def tiny_model_of() -> Callable[..., Model]:
    """Build a tiny random model by family and seed."""
    return make_tiny_model


@pytest.fixture(scope="session")
def tokenizer_of() -> Callable[..., PreTrainedTokenizerFast]:
    """Build an in-memory tokenizer with a chat template."""
    return make_tokenizer


@pytest.fixture(scope="session")
def module_of() -> Callable[..., Any]:
    """Build a random module from a transformers config."""
    return make_module


@pytest.fixture(scope="session")
def embedded_model() -> Iterator[Model]:
    """The real model that comes with selfprobe, converted once and kept."""
    return load_model("smollm2-135m")

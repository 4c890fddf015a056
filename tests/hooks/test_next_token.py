"""The output side, against a plain unpadded forward pass of transformers."""

import math

import pytest
import torch

from hooks import Model, Prompt, next_tokens, render

PROMPTS = [
    Prompt.chat("long", "Tell me a short poem about the wind and the sea"),
    Prompt.chat("short", "poem"),
    Prompt.chat("middle", "the capital of France"),
]


def last_logprobs(model: Model, prompt: Prompt) -> torch.Tensor:
    tokens = torch.tensor([render(model, prompt).token_ids])
    with torch.inference_mode():
        logits = model.module(input_ids=tokens).logits[0, -1]
    return torch.log_softmax(logits.double(), dim=-1)


def test_the_numbers_are_those_of_the_models_own_logits(tiny_model: Model) -> None:
    found = {row.id: row for batch in next_tokens(tiny_model, PROMPTS, ("yes",)) for row in batch}
    assert set(found) == {prompt.id for prompt in PROMPTS}
    spelled = [
        tiny_model.tokenizer(text, add_special_tokens=False)["input_ids"][0]
        for text in ("yes", " yes", "Yes", " Yes")
    ]
    for prompt in PROMPTS:
        logprobs, row = last_logprobs(tiny_model, prompt), found[prompt.id]
        first, second = logprobs.sort(descending=True).values[:2].tolist()
        assert row.max_probability == pytest.approx(math.exp(first), abs=1e-5)
        assert row.top2_margin == pytest.approx(first - second, abs=1e-4)
        assert row.entropy == pytest.approx(float(-(logprobs.exp() * logprobs).sum()), abs=1e-4)
        opening = float(logprobs.exp()[sorted(set(spelled))].sum())
        assert row.opening_log_odds == pytest.approx(math.log(opening / (1 - opening)), abs=1e-4)


def test_without_openings_there_are_no_odds_and_what_is_done_is_left_out(
    tiny_model: Model,
) -> None:
    rows = [row for batch in next_tokens(tiny_model, PROMPTS) for row in batch]
    assert all(row.opening_log_odds is None for row in rows)
    assert list(next_tokens(tiny_model, PROMPTS, done={p.id for p in PROMPTS})) == []

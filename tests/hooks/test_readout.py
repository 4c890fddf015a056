from __future__ import annotations

import math

import pytest
import torch

from hooks import CaptureSpec, Model, Prompt, capture, logit_lens, render, spellings
from hooks.readout import option_tokens, sum_logprobs


def test_spellings() -> None:
    assert spellings("Yes") == ("Yes", " Yes", "yes", " yes")
    assert spellings(" yes") == ("yes", " yes", "Yes", " Yes")
    assert spellings("7") == ("7", " 7")
    assert spellings("I do") == ("I do", " I do", "i do", " i do")


def test_probabilities_of_spellings_are_summed() -> None:
    logits = torch.log(torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]]))
    found = sum_logprobs(logits, {"a": (0, 2), "b": (3,)})
    assert found["a"].exp().tolist() == pytest.approx([0.4, 0.8])
    assert found["b"].tolist() == pytest.approx([math.log(0.4), math.log(0.1)])


def test_first_tokens_are_never_a_lone_space(tiny_model: Model) -> None:
    for tokens in option_tokens(tiny_model.tokenizer, {"x": ["7"], "y": ["zebra"]}).values():
        assert all(tiny_model.tokenizer.decode([token]).strip() for token in tokens)


def test_the_lens_at_the_last_layer_is_the_models_own_answer(tiny_model: Model) -> None:
    prompt = Prompt.chat("a", "What is the capital?")
    (acts,) = capture(tiny_model, [prompt], CaptureSpec())
    logits = logit_lens(tiny_model, acts.sites["resid_post"])
    with torch.inference_mode():
        own = tiny_model.module(torch.tensor([render(tiny_model, prompt).token_ids])).logits
    assert logits.shape == (1, 3, 1, own.shape[-1])
    torch.testing.assert_close(logits[0, -1, 0], own[0, -1], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(logits[0, 0, 0], own[0, -1], atol=1e-2)

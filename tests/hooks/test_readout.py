from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from hooks import CaptureSpec, Model, Prompt, capture, lens_log_odds, logit_lens, render, spellings
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


@pytest.mark.parametrize("whole", [True, False])
def test_the_lens_of_some_tokens_is_that_of_all(tiny_model: Model, whole: bool) -> None:
    """Read off the rows of the unembedding; off all logits where it is not a plain matrix."""
    if not whole:
        readout = tiny_model.architecture.readout
        assert readout is not None
        own = replace(readout, unembedding=nn.Sequential(readout.unembedding))
        tiny_model = replace(tiny_model, architecture=replace(tiny_model.architecture, readout=own))
    states = torch.randn(2, 3, tiny_model.d_model, generator=torch.Generator().manual_seed(0))
    every = logit_lens(tiny_model, states)
    some = logit_lens(tiny_model, states, [5, 0, 7])
    torch.testing.assert_close(some, every[..., [5, 0, 7]], rtol=1e-5, atol=1e-5)


def test_the_log_odds_of_the_lens_at_the_last_layer_are_the_captured_ones(
    tiny_model: Model,
) -> None:
    prompts = [Prompt.chat(str(i), f"What is the capital of number {i}?") for i in range(3)]
    options = {"yes": spellings("yes"), "no": spellings("no")}
    for acts in capture(tiny_model, prompts, CaptureSpec(), options=options):
        states = acts.sites["resid_post"][:, :, 0]  # [item, layer, d_model]
        found = lens_log_odds(tiny_model, states, options["yes"], options["no"])
        captured = acts.option_logprobs["yes"] - acts.option_logprobs["no"]
        assert found.shape == states.shape[:2]
        torch.testing.assert_close(found[:, -1], captured, rtol=1e-4, atol=1e-4)
        assert not torch.allclose(found[:, 0], captured, atol=1e-2)

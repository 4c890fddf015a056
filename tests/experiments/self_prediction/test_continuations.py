from __future__ import annotations

import torch

from experiments.self_prediction.continuations import Continuation, continuation_logprobs
from hooks import Model, Prompt, render

PROMPTS = [Prompt.chat(f"p{n}", "Will you decline? " * n) for n in (2, 1)]
TOKENS = ((31, 40, 52), (31, 40), (60,), (31, 77, 78, 79))
TEMPERATURE = 0.7


def by_hand(model: Model, one: Continuation) -> torch.Tensor:
    """A prompt and its continuation alone, read from beginning to end."""
    ids = torch.tensor([[*one.prompt.token_ids, *one.tokens]])
    logits = model.module(ids).logits[0].float() / TEMPERATURE
    logprobs = logits.log_softmax(-1)
    start = len(one.prompt)
    return torch.stack([logprobs[start + i - 1, t] for i, t in enumerate(one.tokens)]).sum()


def test_log_probabilities_and_gradients_are_those_of_reading_each_alone(tiny_model: Model) -> None:
    prompts = [render(tiny_model, prompt) for prompt in PROMPTS]
    read = [Continuation(prompt, tokens) for tokens in TOKENS for prompt in prompts]
    weights = torch.linspace(-1.0, 2.0, len(read))
    parameters = [p for p in tiny_model.module.parameters() if p.ndim == 2][:6]
    together = continuation_logprobs(tiny_model, read, temperature=TEMPERATURE)
    alone = torch.stack([by_hand(tiny_model, one) for one in read])
    torch.testing.assert_close(together, alone, atol=2e-5, rtol=1e-5)
    got = torch.autograd.grad((together * weights).sum(), parameters, allow_unused=True)
    expected = torch.autograd.grad((alone * weights).sum(), parameters, allow_unused=True)
    assert any(gradient is not None for gradient in expected)
    for mine, true in zip(got, expected, strict=True):
        assert (mine is None) == (true is None)
        if mine is not None and true is not None:
            torch.testing.assert_close(mine, true, atol=1e-4, rtol=1e-3)

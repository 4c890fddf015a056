"""What tells that a changed model still reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.neutral import neutral, perplexity
from tests.conftest import make_tiny_model


def test_perplexity_is_that_of_the_models_own_loss() -> None:
    model = make_tiny_model("llama")
    losses, n_tokens = 0.0, 0
    for text in neutral()["texts"]:
        ids = model.tokenizer(model.tokenizer.bos_token + text, add_special_tokens=False)
        tokens = torch.tensor([ids["input_ids"]])
        with torch.inference_mode():
            loss = model.module(input_ids=tokens, labels=tokens).loss
        losses += float(loss) * (tokens.shape[1] - 1)
        n_tokens += tokens.shape[1] - 1
    assert perplexity(model, neutral()["texts"]) == pytest.approx(
        np.exp(losses / n_tokens), rel=1e-4
    )

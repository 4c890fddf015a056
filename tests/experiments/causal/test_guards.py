"""The dose that is interpreted, and what it is chosen by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from experiments.causal.directions import FITTED, RANDOM, Directions
from experiments.causal.guards import (
    _divergences,
    guards_from,
    measure_guards,
    n_steps,
)
from experiments.causal.settings import MAGNITUDES, CausalSettings
from experiments.neutral import neutral, perplexity
from hooks import Prompt, Steer, intervene, render
from tests.experiments.causal.planted import planted_subject

FINE = [0.01] * len(MAGNITUDES)


def measured(kl: list[float], perplexity: list[float]) -> dict[str, Any]:
    return {
        "kl": [FINE, kl],
        "perplexity": [[1.0] * len(MAGNITUDES), perplexity],
        "null_kl": list(MAGNITUDES),
    }


@pytest.mark.parametrize(
    ("kl", "perplexity", "dose", "passed"),
    [
        (FINE, [1.0] * 5, 2.0, True),
        ([0.1, 0.2, 0.5, 1.2, 3.0], [1.0] * 5, 0.5, True),
        ([0.1, 0.2, 0.5, 0.9, 3.0], [1.0, 1.1, 1.6, 1.7, 9.0], 0.25, True),
        # A dose that passes by chance beyond one that fails is not trusted.
        ([0.1, 1.2, 0.5, 0.9, 0.9], [1.0] * 5, 0.125, True),
        ([1.1, 2.0, 3.0, 4.0, 5.0], [1.0] * 5, 0.125, False),
    ],
)
def test_the_largest_dose_up_to_which_all_are_within_the_bounds(
    kl: list[float], perplexity: list[float], dose: float, passed: bool
) -> None:
    guards = guards_from(measured(kl, perplexity), CausalSettings())
    assert (guards.test_dose, guards.passed) == (dose, passed)
    assert guards.null_kl == dose
    assert guards.within(dose) is guards.within(-dose) is passed
    assert not guards.within(3.0)
    assert guards.to_json()["within"] == [guards.within(one) for one in MAGNITUDES]


def test_kl_is_that_of_the_unchanged_distribution_from_the_changed() -> None:
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    p = torch.softmax(logits.double(), dim=-1).numpy()
    np.testing.assert_allclose(_divergences(logits), entropy(p[:1], p[1:], axis=1))


def test_every_half_and_sign_that_is_applied_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst of the four counts, whichever it is; by hooks on whole prompts at the last block."""
    few = {name: texts[:2] for name, texts in neutral().items()}
    monkeypatch.setattr("experiments.causal.guards.neutral", lambda: few)
    subject, planted = planted_subject(n_items=20)
    vectors = np.random.default_rng(0).standard_normal((2, 3, len(planted)))
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    # Of the difference of means one half's direction is the planted one, which changes most.
    vectors[1, 1] = planted
    directions = Directions((*FITTED, RANDOM["probe"]), vectors, np.zeros(20, dtype=int), 20.0)
    steps = []
    found = measure_guards(subject, directions, steps.append)
    assert len(steps) == n_steps()
    at = 3
    model, prompts = subject.model, [Prompt.chat("p", text) for text in few["prompts"]]
    tokens = [torch.tensor([render(model, prompt).token_ids]) for prompt in prompts]

    def distributions() -> np.ndarray:
        with torch.inference_mode():
            last = [model.module(input_ids=one).logits[0, -1].double() for one in tokens]
        return torch.softmax(torch.stack(last), dim=-1).numpy()

    unchanged, before = distributions(), perplexity(model, few["texts"])
    for row in range(len(FITTED)):
        kl, ratios = [], []
        for half in (0, 1):
            for sign in (1, -1):
                vector = torch.tensor(vectors[half, row], dtype=torch.float32)
                steer = Steer("resid_post", 2, vector, sign * MAGNITUDES[at] * directions.unit)
                with intervene(model, [steer]):
                    kl.append(entropy(unchanged, distributions(), axis=1).mean())
                    ratios.append(perplexity(model, few["texts"]) / before)
        assert min(kl) < 0.8 * max(kl)
        assert found["kl"][row][at] == pytest.approx(max(kl), rel=1e-3)
        assert found["perplexity"][row][at] == pytest.approx(max(ratios), rel=1e-3)

"""Draws have the probabilities that the scores give them, a stream a row."""

from __future__ import annotations

import torch
from scipy.stats import chisquare

from hooks.sampling import Sampling

CPU = torch.device("cpu")


def drawn(scores: torch.Tensor, n: int, temperature: float = 1.0, seed: int = 0) -> torch.Tensor:
    rows = scores.expand(n, -1)
    return Sampling([seed + row for row in range(n)], temperature, CPU)(rows)


def test_draws_have_the_probabilities_of_the_softmax_at_the_temperature() -> None:
    scores = torch.tensor([2.0, -1.0, 0.5, 0.0, 3.0])
    for temperature in (0.5, 1.0, 2.0):
        counts = drawn(scores, 20_000, temperature).bincount(minlength=5)
        wanted = (scores.double() / temperature).softmax(-1) * 20_000
        assert chisquare(counts.numpy(), wanted.numpy()).pvalue > 0.001


def test_what_cannot_come_does_not() -> None:
    scores = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf])
    assert set(drawn(scores, 2_000).tolist()) == {1, 3}


def test_rows_that_leave_take_nothing_from_those_that_stay() -> None:
    scores = torch.randn(6, 50, generator=torch.Generator().manual_seed(0))
    together, parted = (Sampling(range(6), 1.0, CPU) for _ in range(2))
    assert together(scores).tolist() == parted(scores).tolist()
    stay = [1, 4, 5]
    parted.keep(stay)
    assert together(scores)[stay].tolist() == parted(scores[stay]).tolist()

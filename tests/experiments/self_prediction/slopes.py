"""A small regression that trains in milliseconds: an `Objective` with a known answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from experiments.self_prediction.schedule import examples_of_step

N = 60
TRUTH = torch.tensor([1.5, -2.0, 0.5])


class Slopes:
    """Squared error of a linear map, on numbers that depend on nothing."""

    def __init__(
        self,
        *,
        batch: int = 12,
        accumulate: int = 1,
        before_micro_batch: Callable[[int, int], None] = lambda step, part: None,
        noise: float = 0.1,
    ) -> None:
        self.weight = nn.Parameter(torch.zeros(3))
        self.bias = nn.Parameter(torch.zeros(1))
        self.metrics: Mapping[str, float] = {}
        self.n_validations = 0
        self._batch = batch
        self._accumulate = accumulate
        self._before = before_micro_batch
        rng = np.random.default_rng(0)
        self._x = torch.from_numpy(rng.standard_normal((2 * N, 3))).float()
        self._y = self._x @ TRUTH + noise * torch.from_numpy(rng.standard_normal(2 * N)).float()

    @property
    def parameters(self) -> Mapping[str, nn.Parameter]:
        return {"weight": self.weight, "bias": self.bias}

    def losses(self, step: int) -> Iterator[Tensor]:
        chosen = examples_of_step(step, self._batch, N, seed=3)
        for number, part in enumerate(np.array_split(chosen, self._accumulate)):
            self._before(step, number)
            yield self._errors(part.tolist()).sum() / self._batch
        self.metrics = {"step_seen": float(step)}

    def validate(self) -> float:
        assert not torch.is_grad_enabled()
        self.n_validations += 1
        return float(self._errors(list(range(N, 2 * N))).mean())

    def _errors(self, rows: list[int]) -> Tensor:
        return (self._x[rows] @ self.weight + self.bias - self._y[rows]) ** 2

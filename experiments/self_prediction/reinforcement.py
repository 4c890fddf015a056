"""Reinforcement learning with a verifiable reward: the model says what it will do, and is rewarded where it does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from torch import Tensor, nn

from experiments.elicitation import ANSWER_TOKENS
from experiments.self_prediction.labeled import Labeled
from experiments.tasks import Elicitation
from hooks import Model

Reward = Literal["score", "format"]
"""`score`: format x (0.5 + score). `format`: the same with every score at 0.5, a control that no label enters."""


class Reinforce:
    """Policy gradient on the answers to self-prediction questions, an `Objective`."""

    def __init__(
        self,
        model: Model,
        train: Labeled,
        validation: Labeled,
        elicitations: Sequence[Elicitation],
        parameters: Mapping[str, nn.Parameter],
        *,
        batch: int = 16,
        group: int = 8,
        temperature: float = 1.0,
        reward: Reward = "score",
        accumulate: int = 1,
        seed: int = 0,
        answer_tokens: int = ANSWER_TOKENS,
        labels_at: Callable[[int, Labeled], Labeled] | None = None,
    ) -> None:
        self.parameters = parameters
        raise NotImplementedError

    def losses(self, step: int) -> Iterator[Tensor]:
        """The step's micro-batches."""
        raise NotImplementedError

    def validate(self) -> float:
        """Mean negative reward that is expected by exact option odds."""
        raise NotImplementedError

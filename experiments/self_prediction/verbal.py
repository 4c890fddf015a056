"""Supervised training of the words: the true answer behind the question what the model will do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor, nn

from experiments.self_prediction.labeled import Labeled
from experiments.tasks import Elicitation
from hooks import Model


class SayIt:
    """Cross entropy of the true answer's tokens, the end of the turn included; an `Objective`."""

    def __init__(
        self,
        model: Model,
        train: Labeled,
        validation: Labeled,
        elicitations: Sequence[Elicitation],
        *,
        parameters: Mapping[str, nn.Parameter],
        batch: int = 16,
        accumulate: int = 1,
        seed: int = 0,
    ) -> None:
        self.parameters = parameters
        self.metrics: Mapping[str, float] = {}

    def losses(self, step: int) -> Iterator[Tensor]:
        """The step's micro-batches."""
        raise NotImplementedError

    def validate(self) -> float:
        """Mean cross entropy an answer on the validation items."""
        raise NotImplementedError

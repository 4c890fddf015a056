"""A head and the trunk below it, trained together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor, nn

from experiments.adapters import Adapters
from experiments.self_prediction.heads import SelfPredictionHead
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.verbal import SayIt
from hooks import Model


class JointHead:
    """A head on the task prompt's state while the trunk's adapters learn too; an `Objective`."""

    def __init__(
        self,
        model: Model,
        head: SelfPredictionHead,
        adapters: Adapters,
        train: Labeled,
        validation: Labeled,
        *,
        batch: int = 16,
        accumulate: int = 1,
        seed: int = 0,
        words: SayIt | None = None,
        stop_gradient: bool = False,
    ) -> None:
        self.parameters: Mapping[str, nn.Parameter] = {}
        self.metrics: Mapping[str, float] = {}

    def losses(self, step: int) -> Iterator[Tensor]:
        """The step's micro-batches."""
        raise NotImplementedError

    def validate(self) -> float:
        """Loss of the head on the validation items."""
        raise NotImplementedError

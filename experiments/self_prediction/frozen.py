"""A head on states that were read beforehand: the trunk below it stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from experiments.self_prediction.heads import SelfPredictionHead
from experiments.self_prediction.splits import MIN_OF_CLASS, TooFewError

Rows = Float[Tensor, "row column"] | Float[np.ndarray, "row column"]


class FrozenHead:
    """An `Objective` over cached states.

    Args:
        head: is standardized to the training states, and trained.
        states_train, labels_train: what is learned from; labels are NaN where unknown.
        states_validation, labels_validation: what decides when to stop.
        batch: rows of a step; None takes all of them.
        accumulate: micro-batches of a step.
        seed: of the choice of rows.

    Raises:
        TooFewError: a target has too few labels of a class.
        ValueError: shapes that do not agree, states that are not finite, a binary label outside 0 to 1.
    """

    def __init__(
        self,
        head: SelfPredictionHead,
        states_train: Rows,
        labels_train: Rows,
        states_validation: Rows,
        labels_validation: Rows,
        *,
        batch: int | None = None,
        accumulate: int = 1,
        seed: int = 0,
    ) -> None:
        self.parameters: Mapping[str, nn.Parameter] = dict(head.named_parameters())
        self.metrics: Mapping[str, float] = {}

    def losses(self, step: int) -> Iterator[Tensor]:
        """The step's micro-batches."""
        raise NotImplementedError

    def validate(self) -> float:
        """The head's loss on the validation rows."""
        raise NotImplementedError

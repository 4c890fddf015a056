"""What any method says of items, in one form for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from experiments.records import json_number


@dataclass(frozen=True)
class Predicted:
    """Predictions of items.

    Attributes:
        score: ranks the items; higher for outcome 1.
        probability: of outcome 1.
        answer: the outcome that is foretold, an item each; None where an answer in words could not be read.
        seconds: that a prediction took an item, beyond what the model does anyhow when it reads the item.
    """

    score: Float[np.ndarray, " item"]
    probability: Float[np.ndarray, " item"]
    answer: tuple[int | None, ...]
    seconds: float

    @classmethod
    def of_probability(
        cls, probability: np.ndarray, seconds: float, score: np.ndarray | None = None
    ) -> Predicted:
        """Of a reader, which always has an answer: the more probable outcome."""
        answers = tuple(int(one > 0.5) for one in probability)
        ranked = probability if score is None else score
        return cls(np.asarray(ranked, float), np.asarray(probability, float), answers, seconds)

    def to_json(self) -> dict[str, Any]:
        """As a result file holds it."""
        return {
            "score": [json_number(one) for one in self.score],
            "probability": [json_number(one) for one in self.probability],
            "answer": list(self.answer),
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Predicted:
        """The inverse of `to_json`."""
        return cls(
            np.array(row["score"], dtype=float),
            np.array(row["probability"], dtype=float),
            tuple(row["answer"]),
            row["seconds"],
        )

"""What the other models say or do: the cheapest explanation of a self-prediction that needs no self."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from experiments.self_execution.yes_no import UNKNOWN


def majority(votes: Int[np.ndarray, "model item"]) -> Int[np.ndarray, "item"]:
    """What most models say; `UNKNOWN` where they are split evenly, or all unknown."""
    yes, no = (votes == 1).sum(axis=0), (votes == 0).sum(axis=0)
    return np.select([yes > no, yes < no], [1, 0], UNKNOWN)

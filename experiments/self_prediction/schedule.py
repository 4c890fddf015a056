"""Which examples a step takes: an epoch holds each once, in an order that depends on seed and epoch alone."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from experiments.self_prediction.labeled import Labeled


def examples_of_step(step: int, batch: int, n: int, seed: int) -> Int[np.ndarray, " batch"]:
    """The places, among `n` examples, of those that a step takes; steps need not be asked for in turn.

    Args:
        step: from 0.
        batch: examples a step; more than `n` goes through more than an epoch.
        n: how many there are.
        seed: of the orders.
    """
    epochs, places = np.divmod(np.arange(step * batch, (step + 1) * batch), n)
    orders = {
        epoch: np.random.default_rng([seed, epoch]).permutation(n)
        for epoch in np.unique(epochs).tolist()
    }
    return np.array(
        [orders[epoch][place] for epoch, place in zip(epochs.tolist(), places, strict=True)]
    )


def check_batches(train: Labeled, validation: Labeled, batch: int, accumulate: int) -> None:
    """Raise ValueError for parts without items, or a step that cannot be divided as is asked."""
    for name, part in (("train", train), ("validation", validation)):
        if not len(part):
            raise ValueError(f"{name}: no items; give some")
    if batch < 1:
        raise ValueError(f"batch: {batch} is not positive; give at least 1")
    if not 1 <= accumulate <= batch:
        raise ValueError(f"accumulate: {accumulate} parts of {batch}; give from 1 to {batch}")

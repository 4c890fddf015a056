"""Predicted orders of questions against the measured one: the share of pairs in the same order."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
from jaxtyping import Float

Places = Float[np.ndarray, "*batch question"]
"""The place of every question in an order, or anything that rises with it; equal where it does not say."""

_PAIRS = tuple(zip(*combinations(range(4), 2), strict=True))


def pairs_agreed(predicted: Places, measured: Places) -> Float[np.ndarray, "*batch pair"]:
    """1 for every pair of questions that both put in the same order, 0 for another, 1/2 where either has a tie."""
    first, second = (list(one) for one in _PAIRS)
    signs = [np.sign(one[..., second] - one[..., first]) for one in (predicted, measured)]
    return np.asarray((signs[0] * signs[1] + 1) / 2)


def share_in_order(predicted: Places, measured: Places) -> Float[np.ndarray, "*batch"]:
    """Share of the six pairs in the same order; a tie counts half, so that saying nothing has the 1/2 of a random
    order.
    """
    return np.asarray(pairs_agreed(predicted, measured).mean(axis=-1))


def best_constant(measured: Float[np.ndarray, "group question"]) -> Float[np.ndarray, "question"]:
    """The one order that fits all groups best, in hindsight."""
    orders = np.array(list(permutations(range(4))), dtype=float)
    return np.asarray(
        orders[np.argmax([share_in_order(order, measured).mean() for order in orders])]
    )

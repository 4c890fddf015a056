"""P-values of several tests at once.

Holm for comparisons that were planned: no false rejection among all of them, whatever their
dependence. Benjamini-Hochberg for screening: few false ones among the rejections. The maximum over
a grid of cells has a sharper test of its own, `max_statistic_test`, which knows how they hang
together.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control


def holm(p_values: ArrayLike) -> Float[np.ndarray, "test"]:
    """Adjusted p-values that control the family-wise error (Holm 1979, step-down Bonferroni).

    Rejecting every test whose adjusted value is at most alpha makes any false rejection with
    probability at most alpha, under any dependence.

    Args:
        p_values: `[test]`, all tests of the family; leaving one out changes the others.

    Raises ValueError for values that are nan or outside [0, 1].
    """
    values = _checked(p_values)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    factors = np.arange(len(values), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return adjusted


def benjamini_hochberg(p_values: ArrayLike) -> Float[np.ndarray, "test"]:
    """Adjusted p-values that control the false discovery rate (Benjamini and Hochberg 1995).

    Rejecting every test whose adjusted value is at most q keeps the expected share of false
    rejections at most q, for tests that are independent or positively dependent.

    Args and errors as in `holm`; the computation is scipy's `false_discovery_control`.
    """
    values = _checked(p_values)
    return np.asarray(false_discovery_control(values)) if len(values) else values


def _checked(p_values: ArrayLike) -> Float[np.ndarray, "test"]:
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"p_values must be one a test, got shape {values.shape}")
    wrong = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if len(wrong):
        raise ValueError(
            f"p_values[{wrong[0]}] is {values[wrong[0]]}, not in [0, 1]; leave out what was not tested"
        )
    return values

"""The one rule by which features are brought to unit variance on training rows, in float64."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

CONSTANT = 1e-12
"""A feature whose deviation is no larger than this share of its mean is constant up to rounding."""


def column_scaling(
    rows: Float[np.ndarray, "item feature"],
) -> tuple[Float[np.ndarray, "feature"], Float[np.ndarray, "feature"]]:
    """Mean, and factor to unit variance: `(X - mean) * scale`; 0 for a feature that is constant.

    A constant feature would else be blown up to noise of unit size.
    """
    mean = rows.mean(axis=0)
    spread = rows.std(axis=0)
    constant = spread <= CONSTANT * np.abs(mean)
    return mean, np.where(constant, 0.0, 1 / np.where(constant, 1.0, spread))

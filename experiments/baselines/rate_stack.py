"""What the text alone says of a rate: every family by nested ridge, and the stack of all, on given folds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from experiments.baselines.stack import UNSCALED
from experiments.baselines.text import Family
from probes import (
    Candidate,
    RegressionResult,
    nested_ridge_regression,
    stacked_predictions,
    stacked_training_predictions,
)


@dataclass(frozen=True)
class RateStack:
    """Out-of-fold predictions of the text alone, in units of the rate."""

    families: dict[str, RegressionResult]
    """Every family by itself."""
    predicted: Float[np.ndarray, "regrouping item"]
    """The families stacked, cross-fitted: what a probe must add to."""
    training_predicted: Float[np.ndarray, "regrouping fold item"]
    """The stack's own training predictions, for a further stack on top of it (`stacked_r2_gain`)."""


def nested_rate_stack(
    families: Mapping[str, Family], y: ArrayLike, groups: ArrayLike, folds: ArrayLike
) -> RateStack:
    """Predict a rate by every family, and by their stack.

    Args:
        families: as `text_families` makes them.
        y: rate or count `[item]`.
        groups: group of every item `[item]`.
        folds: of the probe that the text stands beside, `[regrouping, item]`.
    """
    scored = {
        name: nested_ridge_regression(
            [Candidate(name, (family,))], y, groups, folds=folds, standardize=name not in UNSCALED
        )
        for name, family in families.items()
    }
    columns = np.stack([one.predicted for one in scored.values()], axis=-1)
    training = np.stack([one.training_predicted for one in scored.values()], axis=-1)
    return RateStack(
        families=scored,
        predicted=stacked_predictions(columns, y, folds, training),
        training_predicted=stacked_training_predictions(training, y, folds),
    )

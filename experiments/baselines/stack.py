"""What the text alone says: every family scored exactly like a probe, and the nested stack of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from experiments.baselines.text import Family
from probes import (
    Candidate,
    NestedResult,
    cross_fitted_stack,
    nested_ridge,
    stacked_training_scores,
)

UNSCALED = frozenset({"tfidf_words", "tfidf_characters"})
"""Families whose rows have unit length already; scaling would blow up their rare words."""


@dataclass(frozen=True)
class TextStack:
    """Out-of-fold scores of the text alone."""

    families: dict[str, NestedResult]
    """Every family by itself."""
    scores: Float[np.ndarray, "regrouping item"]
    """The families stacked, cross-fitted: what a probe must add to."""
    training_scores: Float[np.ndarray, "regrouping fold item"]
    """The stack's own training scores, for a further stack on top of it (`stacked_gain`)."""


def nested_text_stack(
    families: Mapping[str, Family],
    y: ArrayLike,
    groups: ArrayLike,
    *,
    n_folds: int = 5,
    n_regroupings: int = 5,
    seed: int = 0,
) -> TextStack:
    """Score every family and their stack on the folds that `nested_ridge` has for the same arguments.

    Args:
        families: as `text_families` makes them.
        y: 0/1 labels `[item]`.
        groups: group of every item `[item]`.
        n_folds, n_regroupings, seed: as in `nested_ridge`.
    """
    scored = {
        name: nested_ridge(
            [Candidate(name, (family,))],
            y,
            groups,
            n_folds=n_folds,
            n_regroupings=n_regroupings,
            seed=seed,
            standardize=name not in UNSCALED,
        )
        for name, family in families.items()
    }
    folds = next(iter(scored.values())).folds
    columns = np.stack([one.scores for one in scored.values()], axis=-1)
    training = np.stack([one.training_scores for one in scored.values()], axis=-1)
    return TextStack(
        families=scored,
        scores=cross_fitted_stack(columns, y, folds, training_columns=training),
        training_scores=stacked_training_scores(training, y, folds),
    )

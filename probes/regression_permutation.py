"""Is a rate decodable anywhere in a grid? Ridge under permuted values, all permutations as columns of one product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from probes._parallel import Progress
from probes.candidates import Candidate
from probes.column_scores import checked_penalties, ridge_scores
from probes.nested_folds import mean_of_sources
from probes.permutation import (
    MIN_PERMUTATIONS,
    MaxStatistic,
    check_permutations,
    handed_on,
    permuted_grid,
)
from probes.regression_scores import rank_correlations
from probes.ridge import ALPHAS
from probes.splits import check_groups, continuous_target


def max_spearman_test(
    candidates: Sequence[Candidate],
    y: ArrayLike,
    groups: ArrayLike,
    folds: ArrayLike,
    *,
    alphas: Sequence[float] = ALPHAS,
    n_permutations: int = MIN_PERMUTATIONS,
    seed: int = 0,
    standardize: bool = True,
    progress: Progress | None = None,
) -> MaxStatistic:
    """`max_statistic_test` for a continuous target: same-fold Spearman correlation, whole-group permutations.

    Ranks and not squared errors, so that a penalty that shrinks too much or too little does not decide.

    Args:
        candidates, alphas, standardize: as in `nested_ridge_regression`; refitted features see no labels.
        y: rate or count `[item]`.
        groups: group of every item `[item]`.
        folds: fold of every item `[item]`, groups whole (`grouped_folds_of_values`).
        n_permutations: at least 199.
    """
    values = continuous_target(y)
    grid = checked_penalties("ridge", alphas)
    fold_of = np.asarray(folds)
    check_groups(fold_of, groups)
    check_permutations(n_permutations)
    columns = np.column_stack([values, handed_on(values, groups, n_permutations, seed)])

    return permuted_grid(
        candidates,
        fold_of,
        lambda source: ridge_scores(source, columns, grid, standardize=standardize),
        combine=mean_of_sources,
        statistic=lambda predicted: rank_correlations(columns, predicted, fold_of),
        progress=progress,
    )

"""Is a rate decodable anywhere in a grid? Ridge under permuted values, all permutations as columns of one product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from probes._parallel import Progress, map_in_threads
from probes.candidates import Candidate
from probes.permutation import MIN_PERMUTATIONS, MaxStatistic, handed_on
from probes.regression_scores import rank_correlations
from probes.ridge import ALPHAS, RidgeSource
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
    fold_of = np.asarray(folds)
    check_groups(fold_of, groups)
    if n_permutations < MIN_PERMUTATIONS:
        raise ValueError(
            f"n_permutations must be at least {MIN_PERMUTATIONS}, got {n_permutations}"
        )
    columns = np.column_stack([values, handed_on(values, groups, n_permutations, seed)])

    def evaluate(candidate: Candidate) -> Float[np.ndarray, "alpha column"]:
        try:
            sources = [RidgeSource(source, standardize=standardize) for source in candidate.read()]
        except ValueError as error:
            raise ValueError(f"candidate {candidate.name!r}: {error}") from error
        predicted = np.empty((len(alphas), *columns.shape))
        for fold in np.unique(fold_of):
            train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
            predicted[:, test] = np.mean(
                [source.scores(train, test, columns[train], alphas) for source in sources], axis=0
            )
        return np.stack([rank_correlations(columns, one, fold_of) for one in predicted])

    grid = np.stack(map_in_threads(evaluate, candidates, progress))
    return MaxStatistic(
        tuple(candidate.name for candidate in candidates),
        grid[..., 0],
        np.moveaxis(grid[..., 1:], 2, 0),
    )

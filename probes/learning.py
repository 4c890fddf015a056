"""How a probe's score grows with the groups that it is trained on.

Groups are taken whole, and out of the training folds alone: every size is scored on the same test pairs, so that
sizes differ by their training sets and nothing else. What this does not show: what more groups than there are would
give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from probes._parallel import Progress
from probes.estimators import LinearProbe, RidgeProbe
from probes.features import FoldFeatures, dense_features
from probes.metrics import same_fold_auroc
from probes.splits import binary_labels, check_groups, group_codes, groups_of, regrouped_folds
from probes.uncertainty import Interval, auroc_interval

SMALLEST = 8
"""Training groups of the smallest default size."""


@dataclass(frozen=True)
class SampleEfficiency:
    """Out-of-fold scores for every number of training groups, over repeated draws of the groups."""

    sizes: tuple[int, ...]
    """Training groups, ascending."""
    y: Int[np.ndarray, "item"]
    groups: Int[np.ndarray, "item"]
    folds: Int[np.ndarray, "draw item"]
    scores: Float[np.ndarray, "size draw item"]
    n_items: Float[np.ndarray, "size"]
    """Training items, mean over training sets."""
    one_class: Float[np.ndarray, "size"]
    """Share of training sets that held one class only, and so scored all items alike."""

    @cached_property
    def auroc(self) -> Float[np.ndarray, "size draw"]:
        """Same-fold AUROC of every draw."""
        return np.array(
            [
                [
                    same_fold_auroc(self.y, scores, folds)
                    for scores, folds in zip(of_size, self.folds, strict=True)
                ]
                for of_size in self.scores
            ]
        )

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """Mean over draws of every size with a 95% interval, the estimand "procedure".

        Approximate: draws of one size share items, and coverage was not simulated for training sets
        smaller than the folds leave.
        """
        return tuple(
            replace(
                auroc_interval(self.y, scores, self.folds, self.groups, estimand="procedure"),
                approximate=True,
            )
            for scores in self.scores
        )


def sample_efficiency(
    X: ArrayLike | FoldFeatures,
    y: ArrayLike,
    groups: ArrayLike,
    sizes: Sequence[int] | None = None,
    *,
    probe: LinearProbe | Callable[[int, int], LinearProbe] | None = None,
    folds: ArrayLike | None = None,
    n_draws: int = 2,
    seed: int = 0,
    progress: Progress | None = None,
) -> SampleEfficiency:
    """Fit a probe on some of the groups of the training folds, and score the test folds.

    A cell that was chosen on all items makes every size look better than it is. To avoid that, X and probe may be
    functions of (regrouping, fold): the cell and penalty that were selected without that fold
    (`NestedResult.selected_candidate`, `selected_penalty`). The largest size then repeats the nested score; smaller
    sizes still owe the choice of the cell to all training folds.

    Args:
        X: features `[item, feature]`, or a function from (regrouping, fold) to them.
        y: 0/1 labels `[item]`.
        groups: group of every item `[item]`.
        sizes: numbers of training groups; default `training_sizes`.
        probe: an estimator with its parameters, or a function from (regrouping, fold) to one; default `RidgeProbe()`.
        folds: `[regrouping, item]`; default `regrouped_folds` of `seed`.
        n_draws: of training groups, in every fold of every regrouping. Within a draw the smaller size is part of the
            larger one.
        seed: of the draws.
        progress: called with (training folds done, training folds in all).

    Raises ValueError for a size that is not positive or has more groups than a training fold, labels of one class, and
    features of another shape or with nan or inf.
    """
    labels = binary_labels(y)
    codes = groups_of(labels, groups)
    fold_rows = np.atleast_2d(
        regrouped_folds(labels, codes, seed=seed) if folds is None else np.asarray(folds)
    )
    for fold_of in fold_rows:
        check_groups(fold_of, codes)
    if n_draws < 1:
        raise ValueError(f"n_draws must be at least 1, got {n_draws}")
    if len(np.unique(labels)) < 2:
        raise ValueError(f"y is the same for all {len(labels)} items; there is nothing to predict")
    asked = training_sizes(codes, fold_rows) if sizes is None else tuple(sizes)
    most = _most_groups(codes, fold_rows)
    if not asked or not all(isinstance(n, int | np.integer) and 1 <= n <= most for n in asked):
        raise ValueError(
            f"sizes must be whole numbers from 1 to {most}, the groups of the smallest training fold; got {sizes}"
        )
    wanted = tuple(sorted(set(map(int, asked))))
    given = RidgeProbe() if probe is None else probe
    if not isinstance(given, LinearProbe) and not callable(given):
        raise ValueError(f"probe: {given!r} is no LinearProbe, nor a function that gives one")
    rng = np.random.default_rng(seed)
    scores = np.zeros((len(wanted), len(fold_rows), n_draws, len(labels)))
    n_items, one_class = np.zeros((2, len(wanted)))
    steps = [(r, fold) for r, fold_of in enumerate(fold_rows) for fold in np.unique(fold_of)]
    for done, (r, fold) in enumerate(steps, start=1):
        rows = dense_features(X(r, int(fold)) if callable(X) else X, len(labels), "X")
        model = given if isinstance(given, LinearProbe) else given(r, int(fold))
        test = fold_rows[r] == fold
        held_in = np.unique(codes[~test])
        for draw in range(n_draws):
            order = rng.permutation(held_in)
            for s, size in enumerate(wanted):
                train = np.isin(codes, order[:size])
                n_items[s] += train.sum()
                one_class[s] += len(np.unique(labels[train])) < 2
                scores[s, r, draw, test] = _fitted_scores(model, rows, labels, train, test)
        if progress is not None:
            progress(done, len(steps))
    n_sets = len(steps) * n_draws
    return SampleEfficiency(
        wanted,
        labels,
        codes,
        np.repeat(fold_rows, n_draws, axis=0),
        scores.reshape(len(wanted), -1, len(labels)),
        n_items / n_sets,
        one_class / n_sets,
    )


def training_sizes(groups: ArrayLike, folds: ArrayLike, n_sizes: int = 6) -> tuple[int, ...]:
    """Numbers of training groups in equal ratios, from 8 to those of the smallest training fold."""
    most = _most_groups(group_codes(groups), np.atleast_2d(np.asarray(folds)))
    spaced = np.geomspace(min(SMALLEST, most), most, n_sizes)
    return tuple(sorted(set(spaced.round().astype(int).tolist())))


def _most_groups(codes: NDArray[np.int64], fold_rows: NDArray[np.int64]) -> int:
    return min(
        len(np.unique(codes[fold_of != fold]))
        for fold_of in fold_rows
        for fold in np.unique(fold_of)
    )


def _fitted_scores(
    model: LinearProbe,
    rows: NDArray[np.floating],
    labels: NDArray[np.int64],
    train: NDArray[np.bool_],
    test: NDArray[np.bool_],
) -> NDArray[np.float64]:
    if len(np.unique(labels[train])) < 2:
        return np.zeros(int(test.sum()))
    fitted = clone(model).fit(rows[train], labels[train])
    return np.asarray(fitted.decision_function(rows[test]))

"""Several classes: nested selection of cell and C for multinomial probes, and the p-value of the best cell.

Scores are probabilities, compared within a fold: same-fold one-vs-one AUROC (`same_fold_class_auroc`) chooses and
reports. What this does not show: that every class is known; look at the confusion matrix.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from probes._parallel import Progress, map_in_threads
from probes.candidates import Candidate
from probes.class_scores import (
    balanced_accuracy_interval,
    class_auroc_interval,
    confusion_matrix,
    same_fold_class_auroc,
)
from probes.column_scores import (
    FoldScores,
    SourceScores,
    checked_penalties,
    features_by_training_set,
    from_weak_to_strong,
    source_scores,
)
from probes.multinomial import MultinomialProbe
from probes.nested import modal_choice
from probes.nested_folds import (
    NestedCell,
    mean_of_sources,
    nested_cell,
    penalty_of_selected,
    scores_of_selected,
    selected_cells,
)
from probes.permutation import (
    MIN_PERMUTATIONS,
    MaxStatistic,
    check_permutations,
    handed_on,
    permuted_grid,
)
from probes.ridge import Refit
from probes.splits import (
    check_groups,
    class_codes,
    group_codes,
    grouped_folds_of_classes,
    seeds_of_regroupings,
)
from probes.standardize import column_scaling
from probes.uncertainty import Interval


@dataclass(frozen=True)
class MultinomialResult:
    """Out-of-fold probabilities of the selected cell, and the curve of every cell."""

    names: tuple[str, ...]
    penalties: tuple[float, ...]
    """C, the largest (the weakest penalty) first."""
    classes: NDArray[np.generic]
    y: Int[np.ndarray, "item"]
    """Index into `classes`."""
    groups: Int[np.ndarray, "item"]
    folds: Int[np.ndarray, "regrouping item"]
    probabilities: Float[np.ndarray, "regrouping item class"]
    """By the cell and C selected without the item's fold."""
    curve: Float[np.ndarray, "candidate"]
    """Same-fold class AUROC of every cell, mean over regroupings; its maximum is not a result."""
    selected_candidate: Int[np.ndarray, "regrouping fold"]
    """Index into `names`."""
    selected_penalty: Float[np.ndarray, "regrouping fold"]
    n_unconverged: int
    """Fits that stopped short of their tolerance, over all cells, training sets and C."""

    @cached_property
    def auroc(self) -> Interval:
        """Same-fold class AUROC of the selected cell (`same_fold_class_auroc`)."""
        return class_auroc_interval(
            self.y, self.probabilities, self.folds, self.groups, estimand="procedure"
        )

    @cached_property
    def balanced_accuracy(self) -> Interval:
        """Mean over classes of the share of items that are told rightly."""
        return balanced_accuracy_interval(
            self.y, self.probabilities, self.folds, self.groups, estimand="procedure"
        )

    @property
    def confusion(self) -> Float[np.ndarray, "class predicted"]:
        """Items of every class by the class that was predicted, mean over regroupings."""
        return confusion_matrix(self.y, self.probabilities)

    @property
    def modal(self) -> tuple[str, float]:
        """As `NestedResult.modal`."""
        return modal_choice(
            self.names, self.penalties, self.selected_candidate, self.selected_penalty, self.curve
        )


def nested_multinomial(
    candidates: Sequence[Candidate],
    y: ArrayLike,
    groups: ArrayLike,
    *,
    penalties: Sequence[float] | None = None,
    n_folds: int = 5,
    n_regroupings: int = 5,
    seed: int = 0,
    progress: Progress | None = None,
) -> MultinomialResult:
    """Select cell and C on inner folds and score the outer folds, over several regroupings.

    Every fit is scikit-learn's, started from the one for the next smaller C: by far slower than `nested_probe`.

    Args:
        candidates: the cells; probabilities of several sources are averaged.
        y: labels `[item]` of any kind, two classes or more.
        groups: group of every item `[item]`; never straddles a fold.
        penalties: C; default 1e-4..1. Ties go to the smaller one, then to the first cell.
        n_folds: outer folds; the other n_folds - 1 are the inner ones. At least 3.
        progress: called with (training sets done, training sets of all cells).

    Raises ValueError where `class_skip_reason` gives one, and for features that are nan or inf.
    """
    classes, codes = class_codes(y)
    if not candidates:
        raise ValueError("candidates is empty; give at least one cell")
    if n_folds < 3:
        raise ValueError(f"n_folds must be at least 3 for inner selection, got {n_folds}")
    grid = from_weak_to_strong("logistic", checked_penalties("logistic", penalties))
    seeds = seeds_of_regroupings(n_regroupings, seed)
    folds = np.stack([grouped_folds_of_classes(codes, groups, n_folds, one) for one in seeds])
    n_sources = sum(len(candidate.sources) for candidate in candidates)
    count = _Count(progress, n_sources * n_regroupings * n_folds * (n_folds + 1) // 2)

    def evaluate(candidate: Candidate) -> NestedCell:
        try:
            return nested_cell(
                [
                    _multinomial_scores(source, codes, len(classes), grid, count)
                    for source in candidate.read()
                ],
                folds,
                combine=mean_of_sources,
                quality=lambda held_out, fold_of: _inner_auroc(codes, held_out, fold_of),
            )
        except ValueError as error:
            raise ValueError(f"candidate {candidate.name!r}: {error}") from error

    with warnings.catch_warnings():
        # Counted instead. Set here, for filters are shared by all threads.
        warnings.simplefilter("ignore", ConvergenceWarning)
        cells = map_in_threads(evaluate, candidates, None)
    selected = selected_cells(cells)
    aurocs = [
        [same_fold_class_auroc(codes, p, f) for p, f in zip(cell.scores, folds, strict=True)]
        for cell in cells
    ]
    return MultinomialResult(
        tuple(candidate.name for candidate in candidates),
        grid,
        classes,
        codes,
        group_codes(groups),
        folds,
        scores_of_selected(cells, selected, folds),
        np.mean(aurocs, axis=1),
        selected,
        penalty_of_selected(cells, selected, grid),
        sum(cell.n_unconverged for cell in cells),
    )


def max_class_statistic_test(
    candidates: Sequence[Candidate],
    y: ArrayLike,
    groups: ArrayLike,
    folds: ArrayLike,
    *,
    alphas: Sequence[float] | None = None,
    n_permutations: int = MIN_PERMUTATIONS,
    seed: int = 0,
    standardize: bool = True,
    progress: Progress | None = None,
) -> MaxStatistic:
    """`max_statistic_test` for several classes: are they decodable anywhere in the grid?

    The statistic is the same-fold class AUROC of one ridge a class (it against the rest), in closed form for all
    permutations: a multinomial fit a permutation would cost hours, and a permutation test holds for any statistic.

    Args:
        candidates, alphas, standardize, progress: as in `nested_ridge`.
        y: labels `[item]` of any kind.
        groups: group of every item `[item]`; whole groups exchange their labels.
        folds: fold of every item `[item]`, groups whole (`grouped_folds_of_classes`).
        n_permutations: at least 199.
    """
    classes, codes = class_codes(y)
    grid = checked_penalties("ridge", alphas)
    fold_of = np.asarray(folds)
    check_groups(fold_of, groups)
    check_permutations(n_permutations)
    labels = np.column_stack([codes, handed_on(codes, groups, n_permutations, seed)])
    of_class = (labels[..., None] == np.arange(len(classes))).astype(np.int64)
    columns = of_class.reshape(len(codes), -1)

    def statistic(scores: Float[np.ndarray, "item column"]) -> Float[np.ndarray, "labeling"]:
        return same_fold_class_auroc(labels, scores.reshape(of_class.shape), fold_of)

    return permuted_grid(
        candidates,
        fold_of,
        lambda source: source_scores("ridge", source, columns, grid, standardize=standardize),
        combine=mean_of_sources,
        statistic=statistic,
        progress=progress,
    )


class _Count:
    """Training sets done by all threads together."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done, self._lock = progress, total, 0, Lock()

    def advance(self) -> None:
        with self._lock:
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._total)


def _multinomial_scores(
    features: ArrayLike | Refit,
    codes: NDArray[np.int64],
    n_classes: int,
    grid: Sequence[float],
    count: _Count,
) -> SourceScores:
    """Probabilities `[penalty, test, class]`; a class that a training set lacks has probability 0."""
    features_of = features_by_training_set(features, len(codes))
    defaults = MultinomialProbe()

    def of_masks(masks: Bool[np.ndarray, "mask item"]) -> Iterator[FoldScores]:
        for train in masks:
            X = features_of(train).astype(np.float64)
            values = np.zeros((len(grid), (~train).sum(), n_classes))
            converged = np.ones((len(grid), 1), dtype=bool)
            present = np.unique(codes[train])
            if len(present) == 1:
                values[..., present] = 1.0
            else:
                mean, scale = column_scaling(X[train])
                Z = (X - mean) * scale
                model = LogisticRegression(
                    max_iter=defaults.max_iter, tol=defaults.tol, warm_start=True
                )
                for p in reversed(range(len(grid))):
                    model.set_params(C=grid[p]).fit(Z[train], codes[train])
                    values[p][:, present] = model.predict_proba(Z[~train])
                    converged[p] = model.n_iter_.max() < defaults.max_iter
            count.advance()
            yield FoldScores(values, converged)

    return of_masks


def _inner_auroc(
    codes: NDArray[np.int64], held_out: NDArray[np.float64], fold_of: NDArray[np.int64]
) -> Float[np.ndarray, "fold penalty"]:
    """Same-fold class AUROC over the inner folds of every outer one; -inf where no fold holds a pair."""
    inner = [
        same_fold_class_auroc(
            codes[fold_of != o],
            np.moveaxis(held_out[o][:, fold_of != o], 0, 1),
            fold_of[fold_of != o],
        )
        for o in range(len(held_out))
    ]
    return np.asarray(np.nan_to_num(inner, nan=-np.inf))

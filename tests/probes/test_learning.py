"""The sample-efficiency curve: its end is the ordinary score, it rises with signal and stays flat without."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from probes import (
    Candidate,
    RidgeProbe,
    auroc_interval,
    nested_ridge,
    regrouped_folds,
    same_fold_auroc,
    sample_efficiency,
    training_sizes,
)

GROUPS = np.repeat(np.arange(60), 2)


def planted(shift: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.tile([0, 1], 60)
    X = rng.normal(size=(120, 20))
    X[:, 0] += shift * y
    return X, y


def test_the_largest_size_is_the_ordinary_score() -> None:
    X, y = planted(1.5)
    folds = regrouped_folds(y, GROUPS, 5, 2)
    found = sample_efficiency(X, y, GROUPS, [48], folds=folds, n_draws=1)
    for r, fold_of in enumerate(folds):
        for fold in range(5):
            test = fold_of == fold
            expected = RidgeProbe().fit(X[~test], y[~test]).decision_function(X[test])
            np.testing.assert_allclose(found.scores[0, r, test], expected)
    expected = auroc_interval(y, found.scores[0], folds, GROUPS, estimand="procedure")
    assert found.intervals[0].estimate == expected.estimate
    assert found.intervals[0].approximate


def test_cells_selected_without_the_fold_end_at_the_nested_score() -> None:
    X, y = planted(1.2)
    cells = [X[:, 5:10], X[:, :10]]
    nested = nested_ridge([Candidate(str(i), (c,)) for i, c in enumerate(cells)], y, GROUPS)
    found = sample_efficiency(
        lambda r, fold: cells[nested.selected_candidate[r, fold]],
        y,
        GROUPS,
        probe=lambda r, fold: RidgeProbe(alpha=nested.selected_penalty[r, fold]),
        folds=nested.folds,
        n_draws=1,
    )
    assert found.sizes[-1] == 48
    expected = [same_fold_auroc(y, s, f) for s, f in zip(nested.scores, nested.folds, strict=True)]
    np.testing.assert_allclose(found.auroc[-1], expected, atol=2e-3)


def test_more_groups_help_where_there_is_signal_and_do_nothing_where_there_is_none() -> None:
    X, y = planted(1.5)
    found = sample_efficiency(X, y, GROUPS, n_draws=3)
    means = found.auroc.mean(axis=1)
    assert (np.diff(means) > -0.02).all()
    assert means[-1] - means[0] > 0.1
    # The direction itself, known beforehand, bounds what training can reach.
    assert means[-1] < norm.cdf(1.5 / np.sqrt(2)) + 0.05
    noise = [
        sample_efficiency(planted(0.0, seed)[0], y, GROUPS, [8, 48], folds=folds, n_draws=1)
        for seed, folds in enumerate(regrouped_folds(y, GROUPS, 5, 10))
    ]
    ends = np.mean([found.auroc[:, 0] for found in noise], axis=0)
    assert (abs(ends - 0.5) < 0.06).all()


def test_training_groups_are_whole_and_never_of_the_test_fold() -> None:
    X, y = planted(1.0)
    folds = regrouped_folds(y, GROUPS, 4, 1)
    seen: list[tuple[int, int]] = []

    class Recording(RidgeProbe):
        def fit(self, X: np.ndarray, y: np.ndarray) -> Recording:
            seen.append((len(X), len(set(X[:, -1]))))
            return super().fit(X, y)

    marked = np.column_stack([X, GROUPS])
    found = sample_efficiency(marked, y, GROUPS, [5, 20], probe=Recording(), folds=folds, n_draws=1)
    assert seen == [(10, 5), (40, 20)] * 4
    np.testing.assert_array_equal(found.n_items, [10, 40])
    assert found.scores.shape == (2, 1, 120)


def test_groups_are_drawn_and_smaller_draws_are_part_of_larger_ones() -> None:
    _, y = planted(1.0)
    folds = regrouped_folds(y, GROUPS, 4, 1)
    seen: list[frozenset[float]] = []

    class Recording(RidgeProbe):
        def fit(self, X: np.ndarray, y: np.ndarray) -> Recording:
            seen.append(frozenset(X[:, -1].tolist()))
            return super().fit(X, y)

    marked = np.column_stack([np.zeros(len(y)), GROUPS])
    sample_efficiency(marked, y, GROUPS, [20, 25], probe=Recording(), folds=folds, n_draws=2)
    small, large = seen[::2], seen[1::2]
    assert all(one < other for one, other in zip(small, large, strict=True))
    assert len(set(small)) == 8
    assert small[0] != small[1] != frozenset(sorted(set(GROUPS[folds[0] != 0].tolist()))[:20])


def test_training_sets_of_one_class_score_all_items_alike_and_are_counted() -> None:
    X, _ = planted(0.0)
    y = np.repeat(np.arange(60) % 2, 2)
    found = sample_efficiency(X, y, GROUPS, [1, 40], n_draws=1)
    assert found.one_class.tolist() == [1.0, 0.0]
    assert (found.auroc[0] == 0.5).all()


def test_sizes_are_spaced_by_ratio_and_checked() -> None:
    folds = np.arange(120) // 2 % 5
    assert training_sizes(GROUPS, folds) == (8, 11, 16, 23, 34, 48)
    X, y = planted(1.0)
    for sizes in ([0], [49], []):
        with pytest.raises(ValueError, match="sizes must be whole numbers from 1 to 48"):
            sample_efficiency(X, y, GROUPS, sizes, folds=folds)

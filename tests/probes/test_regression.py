from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

from probes import (
    Candidate,
    check_groups,
    grouped_folds_of_values,
    nested_ridge_regression,
    r2_interval,
    same_fold_r2,
    same_fold_spearman,
    spearman_interval,
)
from probes.simulation import clustered_normal, group_sizes

GROUPS = np.repeat(np.arange(60), 4)


def planted(rng, groups=GROUPS, n_features=20, r2=0.5):
    """A target of which the features explain a share `r2`."""
    X = clustered_normal(rng, groups, n_features, 0.3)
    weights = rng.normal(size=n_features)
    weights *= np.sqrt(r2) / np.linalg.norm(weights)
    return X, X @ weights + np.sqrt(1 - r2) * clustered_normal(rng, groups, 1, 0.3)[:, 0]


@pytest.mark.parametrize("digits", [0, 6])
def test_one_fold_is_scikit_learns_and_scipys(digits):
    rng = np.random.default_rng(0)
    y = rng.normal(size=200).round(digits)
    predicted = (y + rng.normal(size=200)).round(digits)
    folds = np.zeros(200)
    assert same_fold_r2(y, predicted, folds) == pytest.approx(r2_score(y, predicted), abs=1e-9)
    expected = spearmanr(y, predicted).statistic
    assert same_fold_spearman(y, predicted, folds) == pytest.approx(expected, abs=1e-9)


def test_a_shift_between_folds_is_no_knowledge():
    """Predictions that only know which fold an item is in."""
    rng = np.random.default_rng(0)
    folds = np.arange(300) % 3
    y = rng.normal(size=300) + 5 * folds
    assert r2_score(y, 5.0 * folds) > 0.9
    assert same_fold_r2(y, 5.0 * folds, folds) == pytest.approx(0, abs=0.03)
    assert same_fold_spearman(y, 5.0 * folds, folds) == 0


def test_constant_targets_have_no_score():
    assert np.isnan(same_fold_r2([1, 1, 2, 2], [0, 1, 2, 3], [0, 0, 1, 1]))
    assert np.isnan(same_fold_spearman([1, 1, 2, 2], [0, 1, 2, 3], [0, 0, 1, 1]))


def test_predictions_are_those_of_scikit_learns_ridge():
    X, y = planted(np.random.default_rng(0))
    folds = np.stack([grouped_folds_of_values(y, GROUPS, seed=s) for s in range(2)])
    result = nested_ridge_regression([Candidate("x", (X,))], y, GROUPS, folds=folds, alphas=(0.3,))
    for fold_of, predicted in zip(folds, result.predicted, strict=True):
        for fold in range(5):
            test = fold_of == fold
            scaler = StandardScaler().fit(X[~test])
            Z = scaler.transform(X[~test])
            model = Ridge(0.3 * (Z**2).sum() / len(Z)).fit(Z, y[~test])
            expected = model.predict(scaler.transform(X[test]))
            np.testing.assert_allclose(predicted[test], expected, atol=1e-4)


def test_finds_the_cell_that_carries_the_target():
    rng = np.random.default_rng(1)
    X, y = planted(rng)
    cells = [Candidate(f"noise{i}", (rng.normal(size=X.shape),)) for i in range(3)]
    cells.insert(2, Candidate("planted", (X,)))
    result = nested_ridge_regression(cells, y, GROUPS)
    assert (result.selected_candidate == 2).all()
    assert result.predicted == pytest.approx(result.candidate_predicted[2])
    assert 0.3 < result.r2.estimate < 0.6
    assert result.r2.low > 0.1
    assert result.spearman.low > 0.4
    assert result.r2.approximate


def test_selection_on_pure_noise_scores_nothing():
    rng = np.random.default_rng(2)
    r2s, rank_correlations = [], []
    for seed in range(20):
        y = clustered_normal(rng, GROUPS, 1, 0.6)[:, 0]
        cells = [Candidate(str(i), (clustered_normal(rng, GROUPS, 60, 0.6),)) for i in range(4)]
        result = nested_ridge_regression(cells, y, GROUPS, n_regroupings=2, seed=seed)
        r2s.append(result.r2.estimate)
        rank_correlations.append(result.spearman.estimate)
    assert -0.2 < np.mean(r2s) < 0.01
    assert np.mean(rank_correlations) == pytest.approx(0, abs=0.04)


def test_inner_selection_sees_nothing_of_the_outer_fold():
    rng = np.random.default_rng(3)
    X, y = planted(rng)
    folds = grouped_folds_of_values(y, GROUPS)
    spoiled = np.where(folds == 0, rng.permutation(y), y)
    cells = [Candidate("a", (X[:, :10],)), Candidate("b", (X[:, 10:],))]
    before, after = (nested_ridge_regression(cells, t, GROUPS, folds=folds) for t in (y, spoiled))
    np.testing.assert_allclose(before.predicted[0, folds == 0], after.predicted[0, folds == 0])
    assert before.selected_penalty[0, 0] == after.selected_penalty[0, 0]


@pytest.mark.parametrize("interval", [r2_interval, spearman_interval])
@pytest.mark.parametrize("icc", [0.0, 0.6])
def test_intervals_of_fixed_predictions_cover(interval, icc):
    """Truth by one huge sample without folds; 150 draws at 95% cover fewer than 134 once in 700."""
    rng = np.random.default_rng(4)

    def draw(n_groups):
        groups = group_sizes(rng, n_groups, 2, 6)
        y, noise = clustered_normal(rng, groups, 2, icc).T
        return y, 0.5 * y + 0.6 * noise, groups

    y, predicted, _ = draw(50_000)
    score = same_fold_r2 if interval is r2_interval else same_fold_spearman
    truth = score(y, predicted, np.zeros(len(y)))
    covered = 0
    for _ in range(150):
        y, predicted, groups = draw(60)
        one = interval(y, predicted, np.zeros(len(y)), groups, estimand="fixed")
        covered += one.low <= truth <= one.high
    assert covered >= 134


def test_copies_of_an_item_do_not_narrow_the_interval():
    rng = np.random.default_rng(5)
    y = rng.normal(size=80)
    predicted, folds, groups = y + rng.normal(size=80), np.arange(80) % 4, np.arange(80)
    once = r2_interval(y, predicted, folds, groups, estimand="fixed")
    copied = (np.tile(v, 3) for v in (y, predicted, folds, groups))
    thrice = r2_interval(*copied, estimand="fixed")
    assert thrice.high - thrice.low == pytest.approx(once.high - once.low, rel=1e-6)


def test_folds_are_grouped_and_balanced_in_the_target():
    rng = np.random.default_rng(6)
    groups = group_sizes(rng, 150, 1, 4)
    y = rng.normal(size=150)[groups]
    folds = grouped_folds_of_values(y, groups, seed=1)
    check_groups(folds, groups)
    assert np.ptp([y[folds == f].mean() for f in range(5)]) < 0.25
    np.testing.assert_array_equal(folds, grouped_folds_of_values(y, groups, seed=1))
    assert (folds != grouped_folds_of_values(y, groups, seed=2)).any()


def test_counts_that_are_mostly_zero_still_get_folds():
    y = np.r_[np.zeros(95), np.arange(1, 6)]
    assert set(grouped_folds_of_values(y, np.arange(100))) == set(range(5))


@pytest.mark.parametrize(
    ("y", "groups", "message"),
    [
        (["yes", "no"] * 20, range(40), "must be numbers"),
        ([np.nan, 1.0] * 20, range(40), r"y\[0\] is nan"),
        ([0.5] * 40, range(40), "same for all 40"),
        (range(40), [i // 10 for i in range(40)], "only 4 groups for 5 folds"),
        (range(40), range(39), "one group each"),
    ],
)
def test_unpredictable_targets_have_a_reason(y, groups, message):
    cell = Candidate("x", (np.zeros((40, 2)),))
    with pytest.raises(ValueError, match=message):
        nested_ridge_regression([cell], list(y), list(groups))


def test_bad_arguments_are_named():
    X, y = planted(np.random.default_rng(0))
    with pytest.raises(ValueError, match="candidates is empty"):
        nested_ridge_regression([], y, GROUPS)
    with pytest.raises(ValueError, match="at least 3"):
        nested_ridge_regression([Candidate("x", (X,))], y, GROUPS, n_folds=2)
    with pytest.raises(ValueError, match="candidate 'x': features: nan or inf"):
        nested_ridge_regression([Candidate("x", (X * np.nan,))], y, GROUPS)
    with pytest.raises(ValueError, match="more than one fold"):
        nested_ridge_regression([Candidate("x", (X,))], y, GROUPS, folds=np.arange(len(y)) % 5)

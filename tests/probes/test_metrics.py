from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from probes import (
    cohen_kappa,
    criterion,
    d_prime,
    equal_mass_bins,
    expected_calibration_error,
    same_fold_auroc,
    same_fold_average_precision,
    same_fold_tpr,
    skill,
    within_fold_zscores,
)


@pytest.mark.filterwarnings("error")
def test_kappa_is_undefined_without_a_word_where_there_is_one_label():
    assert np.isnan(cohen_kappa(["no"] * 3, ["no"] * 3))
    assert cohen_kappa(["no"] * 4, ["no", "no", "yes", "yes"]) == 0
    # Agreement 0.75; by chance 0.5 * 0.25 + 0.5 * 0.75.
    assert cohen_kappa(list("aabb"), list("abbb")) == pytest.approx((0.75 - 0.5) / (1 - 0.5))


def brute_force(y, scores, folds):
    won = pairs = 0.0
    for i, j in itertools.product(range(len(y)), repeat=2):
        if folds[i] == folds[j] and y[i] == 1 and y[j] == 0:
            won += (scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j])
            pairs += 1
    return won / pairs


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.booleans())
def test_auroc_counts_pairs_within_folds(seed, with_ties):
    rng = np.random.default_rng(seed)
    y = np.append(rng.integers(0, 2, 28), [0, 1])
    folds = np.append(rng.integers(0, 4, 28), [0, 0])
    scores = rng.integers(0, 4, 30) if with_ties else rng.normal(size=30)
    expected = brute_force(y, scores, folds)
    assert same_fold_auroc(y, scores, folds) == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 10_000))
def test_one_fold_is_the_ordinary_auroc(seed):
    rng = np.random.default_rng(seed)
    y = np.append(rng.integers(0, 2, 40), [0, 1])
    scores = rng.normal(size=42).round(1)
    ours = same_fold_auroc(y, scores, np.zeros(42))
    assert ours == pytest.approx(roc_auc_score(y, scores), abs=1e-12)


@given(st.integers(0, 10_000))
def test_monotone_transforms_that_differ_by_fold_change_nothing(seed):
    rng = np.random.default_rng(seed)
    y, folds = np.arange(60) % 2, np.arange(60) // 12
    scores = rng.normal(size=60)
    moved = np.exp(scores) * (1 + folds) - 100 * folds
    assert same_fold_auroc(y, scores, folds) == same_fold_auroc(y, moved, folds)


def test_columns_pair_up_or_cross():
    rng = np.random.default_rng(0)
    Y, S = rng.integers(0, 2, (50, 3)), rng.normal(size=(50, 3)).round(1)
    folds = np.arange(50) % 5
    paired = same_fold_auroc(Y, S, folds)
    crossed = same_fold_auroc(Y[:, None, :], S[:, :, None], folds)
    one_label = same_fold_auroc(Y[:, 0], S, folds)
    for i, j in itertools.product(range(3), repeat=2):
        assert crossed[i, j] == pytest.approx(brute_force(Y[:, j], S[:, i], folds))
    np.testing.assert_allclose(paired, np.diag(crossed))
    np.testing.assert_allclose(one_label, crossed[:, 0])


def test_auroc_without_a_pair_is_nan_and_nan_scores_are_refused():
    assert np.isnan(same_fold_auroc([0, 1], [1.0, 2.0], [0, 1]))
    with pytest.raises(ValueError, match="nan"):
        same_fold_auroc([0, 1], [1.0, np.nan], [0, 0])


def test_zscores():
    folds = np.repeat([0, 1, 2], 10)
    scores = np.random.default_rng(0).normal(size=30) * 5 + folds * 100
    scores[20:] = 0.1
    z = within_fold_zscores(scores, folds)
    np.testing.assert_allclose([z[:10].mean(), z[10:20].mean()], 0, atol=1e-12)
    np.testing.assert_allclose([z[:10].std(), z[10:20].std()], 1)
    assert (z[20:] == 0).all()


def test_average_precision_of_one_fold_is_scikit_learns():
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 2, 50), rng.normal(size=50)
    expected = average_precision_score(y, scores)
    assert same_fold_average_precision(y, scores, np.zeros(50)) == pytest.approx(expected)
    shifted = np.tile(scores, 2) + np.repeat([0, 9], 50)
    two = same_fold_average_precision(np.tile(y, 2), shifted, np.repeat([0, 1], 50))
    assert two == pytest.approx(expected)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]), st.booleans())
def test_tpr_of_one_fold_counts_positives_above_the_lowest_cut_allowed(seed, max_fpr, with_ties):
    rng = np.random.default_rng(seed)
    y = np.append(rng.integers(0, 2, 150), [0, 1])
    scores = rng.integers(0, 9, 152) if with_ties else rng.normal(size=152) + y
    negatives, positives = scores[y == 0], scores[y == 1]
    cuts = [c for c in np.append(scores, np.inf) if (negatives >= c).mean() <= max_fpr]
    expected = (positives >= min(cuts)).mean()
    ours = same_fold_tpr(y, scores, np.zeros(152), max_fpr=max_fpr)
    assert ours == pytest.approx(expected, abs=1e-12)
    fpr, tpr, _ = roc_curve(y, scores, drop_intermediate=False)
    assert ours == pytest.approx(tpr[fpr <= max_fpr].max(), abs=1e-9)


def test_tpr_cuts_every_fold_by_itself_and_leaves_out_folds_of_one_class():
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(300) % 3 == 0, 2).astype(int)
    scores = rng.normal(size=600) + y
    folds = np.repeat([0, 1], 300)
    halves = [same_fold_tpr(y[folds == f], scores[folds == f], np.zeros(300)) for f in (0, 1)]
    shifted = scores + 50 * folds
    assert same_fold_tpr(y, shifted, folds) == pytest.approx(np.mean(halves))
    with_extra = same_fold_tpr(
        np.append(y, [1, 1]), np.append(shifted, [0, 9]), np.append(folds, [2, 2])
    )
    assert with_extra == pytest.approx(np.mean(halves))
    assert np.isnan(same_fold_tpr([1, 1, 0, 0], [1.0, 2, 3, 4], [0, 0, 1, 1]))
    with pytest.raises(ValueError, match="max_fpr"):
        same_fold_tpr(y, scores, folds, max_fpr=1.5)


def test_calibration_error_of_a_known_miscalibration():
    y = np.tile([0, 0, 0, 1], 100)
    assert expected_calibration_error(y, np.full(400, 0.25), 1) == pytest.approx(0)
    assert expected_calibration_error(y, np.full(400, 0.65), 1) == pytest.approx(0.4)
    bins = equal_mass_bins(np.arange(100) % 2, np.linspace(0, 1, 100), 10)
    assert bins.shape == (10, 3)
    assert (bins[:, 2] == 10).all()


def test_equal_probabilities_are_in_one_bin():
    """Whoever always says the base rate is calibrated, in whatever order the items come."""
    y = np.random.default_rng(0).permutation(np.repeat([0, 1], [45, 15]))
    assert expected_calibration_error(y, np.full(60, 0.25)) == pytest.approx(0)
    said = np.where(np.arange(60) < 40, 0.2, 0.9)
    rates = [y[said == one].mean() for one in (0.2, 0.9)]
    expected = (40 * abs(rates[0] - 0.2) + 20 * abs(rates[1] - 0.9)) / 60
    assert expected_calibration_error(y, said) == pytest.approx(expected)


def test_d_prime_and_criterion_by_hand():
    y = np.repeat([1, 0], 20)
    answers = np.r_[np.ones(15), np.zeros(5), np.ones(4), np.zeros(16)].astype(int)
    hit, false_alarm = norm.ppf(15.5 / 21), norm.ppf(4.5 / 21)
    assert d_prime(y, answers) == pytest.approx(hit - false_alarm)
    assert criterion(y, answers) == pytest.approx(-(hit + false_alarm) / 2)
    assert criterion(y, np.ones(40, int)) < -1.5
    assert d_prime(y, np.ones(40, int)) == pytest.approx(0)


def test_best_constant_has_no_skill_and_unparsed_is_the_worst():
    y = np.array([1, 1, 1, 0])
    assert skill(y, [1, 1, 1, 1]) == 0
    assert skill(y, [0.75] * 4, "brier") == pytest.approx(0)
    assert skill(y, y) == 0.25
    assert skill(y, [1, 1, np.nan, 0]) == 0
    assert skill(y, [1, 1, np.nan, 0], "brier") == pytest.approx(0.75 - (1 - 3 / 16))

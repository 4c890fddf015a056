from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import norm, sem, t, ttest_rel

from probes import (
    auroc_difference,
    auroc_interval,
    criterion,
    criterion_interval,
    mean_interval,
    rate_difference,
    rate_interval,
    regrouped_folds,
    same_fold_auroc,
)
from probes.same_fold_pairs import SameFoldPairs
from probes.simulation import clustered_data, clustered_normal, group_sizes


def clustered_example(seed=0, n_groups=40):
    rng = np.random.default_rng(seed)
    groups = group_sizes(rng, n_groups, 2, 5)
    data = clustered_data(rng, groups, 10, icc=0.5, auroc=0.8)
    folds = regrouped_folds(data.y, groups)
    return data, groups, folds


def test_variance_counts_every_two_pairs_that_share_a_group_once():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(24), 2)
    y, folds = rng.integers(0, 2, 48), np.repeat(np.arange(2), 24)
    pairs = SameFoldPairs.within(y, folds)
    scored = pairs.score(rng.normal(size=48) + y)
    listed = [
        (residual[i, j], {groups[positive[i]], groups[negative[j]]})
        for (positive, negative), residual in zip(pairs.of_fold, scored.residuals, strict=True)
        for i, j in np.ndindex(residual.shape)
    ]
    expected = sum(a * b for (a, one), (b, two) in itertools.product(listed, repeat=2) if one & two)
    value = pairs.variance(scored.residuals, groups).value
    assert value * 23 / 24 == pytest.approx(expected)


def test_many_single_item_groups_in_one_fold_give_delong():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 800)
    scores = rng.normal(size=800) + y
    positive, negative = scores[y == 1], scores[y == 0]
    placements = (positive[:, None] > negative).mean(1), (positive > negative[:, None]).mean(1)
    delong = sum(p.var(ddof=1) / len(p) for p in placements)
    interval = auroc_interval(y, scores, np.zeros(800), np.arange(800), estimand="fixed")
    theta = interval.estimate
    half = (np.log(interval.high / (1 - interval.high)) - np.log(theta / (1 - theta))) / 1.963
    assert half * theta * (1 - theta) == pytest.approx(np.sqrt(delong), rel=0.02)


def test_estimate_is_the_mean_same_fold_auroc_and_regroupings_are_flagged(out_of_fold):
    data, groups, folds = clustered_example()
    scores = out_of_fold(data.X, data.y, folds)
    interval = auroc_interval(data.y, scores, folds, groups, estimand="procedure")
    aurocs = [same_fold_auroc(data.y, s, f) for s, f in zip(scores, folds, strict=True)]
    assert interval.estimate == pytest.approx(np.mean(aurocs))
    assert interval.n_groups == 40
    assert not interval.approximate
    one = auroc_interval(data.y, scores[:1], folds[:1], groups, estimand="procedure")
    assert one.approximate
    fixed = auroc_interval(data.y, scores[0], folds[0], groups, estimand="fixed")
    assert fixed.high - fixed.low < one.high - one.low


def test_perfect_separation_keeps_a_lower_limit():
    y = np.repeat([0, 1], 40)
    groups = np.arange(80) // 2
    interval = auroc_interval(y, y * 1.0, np.zeros(80), groups, estimand="fixed")
    assert (interval.estimate, interval.high, interval.approximate) == (1.0, 1.0, True)
    assert interval.low == pytest.approx(0.025 ** (1 / 20))


def test_few_groups_are_approximate():
    data, groups, folds = clustered_example(n_groups=20)
    assert auroc_interval(data.y, data.X[:, 0], folds, groups, estimand="fixed").approximate


def test_difference_of_a_predictor_with_itself_is_zero(out_of_fold):
    data, groups, folds = clustered_example()
    scores = out_of_fold(data.X, data.y, folds)
    same = auroc_difference(data.y, scores, scores * 2, folds, groups, estimand="procedure")
    assert (same.estimate, same.low, same.high) == (0, 0, 0)


def test_difference_is_antisymmetric_and_paired(out_of_fold):
    data, groups, folds = clustered_example()
    rng = np.random.default_rng(1)
    scores = out_of_fold(data.X, data.y, folds)
    words = data.X[:, 0]
    ab = auroc_difference(
        data.y, scores, words, folds, groups, estimand="procedure", trained=(True, False)
    )
    ba = auroc_difference(
        data.y, words, scores, folds, groups, estimand="procedure", trained=(False, True)
    )
    assert ab.estimate == pytest.approx(-ba.estimate)
    assert ab.low == pytest.approx(-ba.high)
    near = words + 0.01 * rng.normal(size=len(words))
    close = auroc_difference(data.y, words, near, folds[0], groups, estimand="fixed")
    alone = auroc_interval(data.y, words, folds[0], groups, estimand="fixed")
    assert close.high - close.low < 0.2 * (alone.high - alone.low)


def test_rate_of_independent_items_is_about_wilsons():
    successes = np.r_[np.ones(170), np.zeros(30)].astype(int)
    interval = rate_interval(successes, np.arange(200))
    assert (interval.low, interval.high) == pytest.approx((0.794, 0.893), abs=0.003)


def test_rate_of_all_successes_counts_groups():
    interval = rate_interval(np.ones(400, int), np.arange(400) // 10)
    assert interval.high == 1
    assert interval.low == pytest.approx(40 / (40 + 2.0227**2), abs=1e-3)


def test_criterion_of_constant_yes_is_far_from_zero():
    y, groups = np.arange(200) % 2, np.arange(200) // 4
    answers = np.ones(200, int)
    answers[:3] = 0
    interval = criterion_interval(y, answers, groups)
    assert interval.estimate == criterion(y, answers)
    assert interval.high < -1


def test_criterion_is_jackknifed_over_groups():
    """Against the definition: the criterion without each group in turn."""
    rng = np.random.default_rng(0)
    y, answers, groups = rng.integers(0, 2, 90), rng.integers(0, 2, 90), rng.integers(0, 12, 90)
    without = np.array([criterion(y[groups != g], answers[groups != g]) for g in range(12)])
    error = np.sqrt(11 / 12 * ((without - without.mean()) ** 2).sum())
    interval = criterion_interval(y, answers, groups)
    assert (interval.high - interval.low) / 2 == pytest.approx(error * t.ppf(0.975, 11))


# Of 300 simulations at a true 95%, three binomial standard deviations are 3.8 points.
TOLERANCE = 0.038


def share_covered(intervals):
    truth = np.mean([i.estimate for i in intervals])
    return np.mean([i.low <= truth <= i.high for i in intervals])


@pytest.mark.parametrize(("icc", "auroc"), [(0.0, 0.5), (0.6, 0.8)])
def test_fixed_interval_covers(icc, auroc):
    intervals = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        groups = group_sizes(rng, 60, 2, 8)
        data = clustered_data(rng, groups, 1, icc=icc)
        words = clustered_normal(rng, groups, 1, icc)[:, 0]
        words += data.y * np.sqrt(2) * norm.ppf(auroc)
        fold = (rng.permutation(60) % 5)[groups]
        intervals.append(auroc_interval(data.y, words, fold, groups, estimand="fixed"))
    assert share_covered(intervals) == pytest.approx(0.95, abs=TOLERANCE)


def test_procedure_and_difference_cover(out_of_fold):
    trained, gains = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        groups = group_sizes(rng, 40, 2, 5)
        data = clustered_data(rng, groups, 42, icc=0.6, auroc=0.85)
        words = clustered_normal(rng, groups, 1, 0.6)[:, 0] + 0.6 * data.y
        folds = np.stack([(rng.permutation(40) % 5)[groups] for _ in range(3)])
        scores = out_of_fold(data.X, data.y, folds)
        trained.append(auroc_interval(data.y, scores, folds, groups, estimand="procedure"))
        gains.append(
            auroc_difference(
                data.y, scores, words, folds, groups, estimand="procedure", trained=(True, False)
            )
        )
    assert share_covered(trained) == pytest.approx(0.95, abs=TOLERANCE)
    assert share_covered(gains) == pytest.approx(0.95, abs=TOLERANCE)


def test_a_rate_difference_of_single_item_groups_is_the_paired_t_interval():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 2, (2, 300))
    interval = rate_difference(first, second, np.arange(300))
    reference = ttest_rel(first, second).confidence_interval(0.95)
    assert interval.estimate == pytest.approx(first.mean() - second.mean())
    assert interval.low == pytest.approx(reference.low)
    assert interval.high == pytest.approx(reference.high)


def test_a_rate_difference_covers_with_clustered_items():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 4)
    covered, naive = [], []
    for _ in range(600):
        shared = np.repeat(rng.normal(size=(2, 60)), 4, axis=1)
        skill = np.sqrt(0.6) * shared + np.sqrt(0.4) * rng.normal(size=(2, 240))
        first, second = skill > np.array([[-0.5], [0.0]])
        truth = norm.cdf(0.5) - 0.5
        for found, codes in ((covered, groups), (naive, np.arange(240))):
            interval = rate_difference(first, second, codes)
            found.append(interval.low <= truth <= interval.high)
    assert 0.925 <= np.mean(covered) <= 0.975
    assert np.mean(naive) < 0.9


def test_a_rate_difference_of_equal_answers_is_not_certain():
    interval = rate_difference(np.ones(400), np.ones(400), np.arange(400) // 10)
    assert interval.estimate == 0
    assert interval.high == pytest.approx(1 - 0.025 ** (1 / 40))
    assert interval.low == -interval.high
    with pytest.raises(ValueError, match="second has 3 items and first 4"):
        rate_difference(np.ones(4), np.ones(3), np.arange(4))


def test_groups_and_answers_of_other_items_are_refused():
    y, groups = np.arange(40) % 2, np.arange(40)
    with pytest.raises(ValueError, match="groups: 41 of them for 40 items"):
        auroc_interval(y, y * 1.0, np.zeros(40), np.arange(41), estimand="fixed")
    with pytest.raises(ValueError, match="groups: 39 of them for 40 items"):
        rate_interval(y, groups[:39])
    with pytest.raises(ValueError, match="answers: 39 of them for 40 labels"):
        criterion_interval(y, y[:39], groups)


def test_a_mean_of_scores_is_that_of_independent_groups() -> None:
    """Whole groups of equal scores: the t interval of their means, cut at the bounds of the score."""
    means = np.array([0.2, 0.9, 0.4, 0.7, 0.6, 0.3])
    found = mean_interval(np.repeat(means, 3), np.repeat(np.arange(6), 3), bounds=(0.0, 1.0))
    low, high = t.interval(0.95, 5, loc=means.mean(), scale=sem(means))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.estimate == pytest.approx(means.mean())
    alike = mean_interval(np.zeros(10), np.arange(10), bounds=(0.0, 1.0))
    assert (alike.estimate, alike.low) == (0.0, 0.0)
    assert alike.high == pytest.approx(1 - 0.025 ** (1 / 10))
    with pytest.raises(ValueError, match="from 0 to 1"):
        mean_interval([0.5, -0.1], [0, 1], bounds=(0.0, 1.0))

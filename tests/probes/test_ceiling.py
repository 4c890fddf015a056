from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import beta, norm
from sklearn.metrics import roc_auc_score

from probes import GREEDY_CEILING, beta_auroc, label_ceiling
from probes.simulation import clustered_normal


def sampled(rng, groups, samples, icc, shapes):
    """Counts whose p follows a beta distribution exactly and is alike within groups."""
    p = beta.ppf(norm.cdf(clustered_normal(rng, groups, 1, icc)[:, 0]), *shapes)
    return rng.binomial(samples, p)


def test_ceiling_of_a_uniform_p_is_five_sixths():
    assert beta_auroc(1, 1) == pytest.approx(5 / 6)


@pytest.mark.parametrize(("a", "b"), [(2.0, 5.0), (1.5, 1.0), (8.0, 8.0)])
def test_closed_form_is_the_integral_over_pairs(a, b):
    """A positive's p is distributed as Beta(a + 1, b), a negative's as Beta(a, b + 1)."""
    expected, _ = dblquad(
        lambda q, p: beta.pdf(p, a + 1, b) * beta.pdf(q, a, b + 1),
        0,
        1,
        0,
        lambda p: p,
        epsabs=1e-7,
    )
    assert beta_auroc(a, b) == pytest.approx(expected, abs=1e-5)


def test_closed_form_is_what_a_perfect_predictor_scores():
    rng = np.random.default_rng(0)
    p = rng.beta(0.4, 0.9, 400_000)
    assert beta_auroc(0.4, 0.9) == pytest.approx(
        roc_auc_score(rng.random(len(p)) < p, p), abs=0.002
    )


def test_limits():
    assert GREEDY_CEILING == 1
    assert beta_auroc(1e-7, 1e-7) == pytest.approx(1)
    assert 0.5 < beta_auroc(1e6, 1e6) < 0.501


def test_observed_rates_promise_too_much_and_the_fit_does_not():
    """Two samples an item, p uniform: the rates themselves give 17/18 where 5/6 is to be had."""
    rng = np.random.default_rng(1)
    won = rng.binomial(2, rng.random(50_000))
    fresh = rng.random(len(won)) < won / 2
    assert roc_auc_score(fresh, won / 2) == pytest.approx(17 / 18, abs=0.005)
    fitted = label_ceiling(won, 2, np.arange(len(won)))
    assert fitted.estimate == pytest.approx(5 / 6, abs=0.01)
    assert fitted.low < 5 / 6 < fitted.high
    assert not fitted.approximate


@pytest.mark.parametrize(
    ("samples", "icc", "shapes"),
    [(2, 0.0, (1, 1)), (2, 0.6, (1, 1)), (4, 0.6, (0.5, 1)), (8, 0.3, (3, 3))],
)
def test_intervals_cover(samples, icc, shapes):
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(60), 5)
    truth = float(beta_auroc(*shapes))
    intervals = [
        label_ceiling(sampled(rng, groups, samples, icc, shapes), samples, groups)
        for _ in range(60)
    ]
    covered = np.mean([one.low <= truth <= one.high for one in intervals])
    # 60 draws at 95% cover fewer than 52 of them once in 350.
    assert covered >= 52 / 60
    assert np.mean([one.estimate for one in intervals]) == pytest.approx(truth, abs=0.02)


def test_copies_of_an_item_do_not_narrow_the_interval():
    rng = np.random.default_rng(3)
    won = rng.binomial(3, rng.random(80))
    once = label_ceiling(won, 3, np.arange(80))
    copied = label_ceiling(np.tile(won, 4), 3, np.tile(np.arange(80), 4))
    assert copied.estimate == pytest.approx(once.estimate, abs=1e-4)
    assert copied.high - copied.low == pytest.approx(once.high - once.low, rel=0.05)


def test_items_that_never_vary_have_a_ceiling_near_one_with_a_lower_bound():
    interval = label_ceiling(np.tile([0, 3], 40), 3, np.arange(80))
    assert interval.estimate == pytest.approx(1, abs=0.001)
    assert 0.9 < interval.low < interval.estimate <= interval.high
    assert interval.approximate


def test_counts_without_extra_spread_have_a_ceiling_near_chance():
    rng = np.random.default_rng(4)
    interval = label_ceiling(rng.binomial(4, 0.5, 400), 4, np.arange(400))
    assert interval.low < 0.51
    assert interval.high < 0.65


def test_numbers_of_samples_may_differ():
    rng = np.random.default_rng(5)
    samples = rng.integers(1, 6, 5000)
    interval = label_ceiling(rng.binomial(samples, rng.random(5000)), samples, np.arange(5000))
    assert interval.low < 5 / 6 < interval.high
    assert interval.high - interval.low < 0.05


@pytest.mark.parametrize(
    ("successes", "samples", "groups", "message"),
    [
        ([0, 1], 1, [0, 1], "at least 2"),
        ([0.5, 1], 2, [0, 1], "whole numbers"),
        ([np.nan, 1], 2, [0, 1], "whole numbers"),
        ([3, 1], 2, [0, 1], "between 0 and samples"),
        ([2, 2], 2, [0, 1], "one label"),
        ([1, 2], 2, [0, 0], "at least 2 groups"),
        ([1, 2, 0], 2, [0, 0], "shape"),
    ],
)
def test_what_is_no_count_is_refused(successes, samples, groups, message):
    with pytest.raises(ValueError, match=message):
        label_ceiling(successes, samples, groups)

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from probes import (
    Design,
    auroc_difference,
    difference_error,
    difference_power,
    items_needed,
    same_fold_auroc,
)
from probes.power import _win_covariance
from probes.simulation import clustered_normal


def two_scores(rng, n_groups, design, aurocs):
    """Binormal scores of two fixed predictors of the same items, clustered as the design says."""
    groups = np.repeat(np.arange(n_groups), design.group_size)
    of_group = rng.random(n_groups)[groups]
    by_group = rng.random(len(groups)) < design.label_icc
    y = (np.where(by_group, of_group, rng.random(len(groups))) < design.positive_rate).astype(int)
    common, own, other = clustered_normal(rng, groups, 3, design.score_icc).T
    r = design.score_correlation
    noise = np.sqrt(r) * common + np.sqrt(1 - r) * np.stack([own, other])
    scores = noise + np.sqrt(2) * norm.ppf(aurocs)[:, None] * y
    fold_of_group = rng.permutation(n_groups) % design.n_folds
    return y, scores, fold_of_group[groups], groups


DESIGNS = {
    "independent": Design(),
    "rare label": Design(positive_rate=0.15, score_correlation=0.2),
    "group decides": Design(group_size=5, score_icc=0.6),
    "labels vary within groups": Design(group_size=5, score_icc=0.6, label_icc=0.0),
}


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_error_is_the_spread_of_simulated_differences(design):
    rng = np.random.default_rng(0)
    n_groups = 100 if design.group_size > 1 else 400
    differences = []
    for _ in range(500):
        y, scores, folds, _ = two_scores(rng, n_groups, design, (0.8, 0.7))
        first, second = same_fold_auroc(y, scores.T, folds)
        differences.append(first - second)
    expected = difference_error(0.8, 0.7, n_groups, design)
    # 500 draws know a standard deviation to 3%.
    assert np.std(differences) == pytest.approx(expected, rel=0.12)


def test_planned_sample_size_gives_the_power_it_promises():
    design = Design(group_size=4, score_icc=0.5, n_folds=5)
    plan = items_needed(0.8, 0.7, design, power=0.8)
    rng = np.random.default_rng(1)
    separated = []
    for _ in range(300):
        y, scores, folds, groups = two_scores(rng, plan.n_groups, design, (0.8, 0.7))
        interval = auroc_difference(y, *scores, folds, groups, estimand="fixed")
        separated.append(interval.low > 0)
    assert np.mean(separated) == pytest.approx(0.8, abs=0.08)


def test_plan_is_the_smallest_that_reaches_the_power():
    design = Design(group_size=3, score_icc=0.3)
    plan = items_needed(0.75, 0.7, design, power=0.9)
    assert plan.n_items == 3 * plan.n_groups
    assert plan.power >= 0.9 > difference_power(0.75, 0.7, plan.n_groups - 1, design)


def test_clustering_multiplies_the_items_by_the_design_effect():
    clustered = Design(group_size=5, score_icc=0.5)
    ratio = items_needed(0.8, 0.75, clustered).n_items / items_needed(0.8, 0.75).n_items
    assert clustered.design_effect == 3
    assert ratio == pytest.approx(3, rel=0.03)


@pytest.mark.parametrize("correlation", [-0.6, 0.3, 0.5, 1.0])
def test_covariance_of_wins_is_that_of_the_bivariate_normal(correlation):
    first, second = norm.ppf(0.8), norm.ppf(0.65)
    joint = multivariate_normal.cdf(
        [first, second], cov=[[1, correlation], [correlation, 1]], allow_singular=True
    )
    expected = joint - 0.8 * 0.65
    assert _win_covariance(first, second, correlation) == pytest.approx(expected, abs=1e-5)


def test_error_of_a_single_auroc_agrees_with_hanley_and_mcneil():
    """Two useless independent scores: twice the variance of one, (n + 1) / (12 n_pos n_neg) each."""
    design = Design(score_correlation=0.0, n_folds=1)
    expected = np.sqrt(2 * 201 / (12 * 100 * 100))
    assert difference_error(0.5, 0.5, 200, design) == pytest.approx(expected, rel=1e-6)


def test_training_doubles_the_variance_of_two_probes():
    fixed = difference_error(0.8, 0.7, 300, Design())
    probes = difference_error(0.8, 0.7, 300, Design(trained=(True, True)))
    one = difference_error(0.8, 0.7, 300, Design(trained=(True, False)))
    assert probes == pytest.approx(fixed * np.sqrt(2))
    assert fixed < one


def test_what_helps_needs_fewer_items():
    def needed(**changes):
        return items_needed(0.8, 0.75, replace(Design(group_size=2, score_icc=0.4), **changes))

    base = needed().n_items
    assert needed(score_correlation=0.8).n_items < base
    assert needed(label_icc=0.0).n_items < base
    assert needed(positive_rate=0.1).n_items > base
    assert items_needed(0.8, 0.7, Design(group_size=2, score_icc=0.4)).n_items < base


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: items_needed(0.7, 0.7), "no number of items"),
        (lambda: items_needed(1.0, 0.7), "first must be an AUROC"),
        (lambda: items_needed(0.8, 0.7, power=1.0), "power must lie"),
        (lambda: items_needed(0.8, 0.8 - 1e-7), "need over"),
        (lambda: difference_power(0.8, 0.7, 1, Design()), "n_groups must be at least 2"),
        (lambda: Design(score_icc=1.5), "score_icc must lie"),
        (lambda: Design(group_size=0), "group_size must be"),
        (lambda: Design(positive_rate=0.0), "positive_rate must lie"),
        (lambda: Design(score_correlation=2), "score_correlation must lie"),
    ],
)
def test_impossible_plans_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()

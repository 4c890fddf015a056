from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import Ridge

from probes import degeneracy, grouped_folds, regrouped_folds, same_fold_auroc
from probes.simulation import clustered_normal


def planted(rng, auroc, scales, *, n_groups=75, d=40):
    """Directions that each tell as much, in noise of their own scale, turned at random."""
    groups = np.repeat(np.arange(n_groups), 2)
    y = (clustered_normal(rng, groups, 1, 0.3)[:, 0] > 0).astype(int)
    X = clustered_normal(rng, groups, d, 0.3)
    strength = np.sqrt(2 / len(scales)) * norm.ppf(auroc)
    X[:, : len(scales)] = (X[:, : len(scales)] + (y[:, None] - 0.5) * strength) * scales
    return X @ np.linalg.qr(rng.normal(size=(d, d)))[0], y, groups


def test_every_step_is_the_loop_that_projects_features_out():
    rng = np.random.default_rng(0)
    X, y, groups = planted(rng, 0.9, [1.0, 3.0], d=60)
    X *= rng.uniform(0.1, 20, 60)
    folds = regrouped_folds(y, groups, 5, 2)
    result = degeneracy(X, y, groups, alpha=0.1, folds=folds, max_removals=2)
    steps = np.zeros((3, *folds.shape))
    for r, fold_of in enumerate(folds):
        for fold in range(5):
            test = fold_of == fold
            Z = (X - X[~test].mean(axis=0)) / X[~test].std(axis=0)
            for step in range(3):
                penalty = 0.1 * (Z[~test] ** 2).sum() / (~test).sum()
                model = Ridge(alpha=penalty).fit(Z[~test], 2 * y[~test] - 1)
                steps[step, r, test] = model.predict(Z[test])
                unit = model.coef_ / np.linalg.norm(model.coef_)
                Z = Z - np.outer(Z @ unit, unit)
    for step, interval in enumerate(result.aurocs):
        expected = np.mean(
            [same_fold_auroc(y, s, f) for s, f in zip(steps[step], folds, strict=True)]
        )
        assert interval.estimate == pytest.approx(expected, abs=1e-9)


def simulations(n, auroc, scales, alpha, seed=0):
    rng = np.random.default_rng(seed)
    return [
        degeneracy(
            *planted(rng, auroc, scales),
            alpha=alpha,
            n_regroupings=1,
            max_removals=1,
            seed=index,
        )
        for index in range(n)
    ]


def left(results):
    return np.mean([result.aurocs[1].estimate for result in results])


@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_noise_stays_at_chance_before_and_after_a_removal(alpha):
    results = simulations(30, 0.5, [1.0], alpha)
    assert np.mean([r.aurocs[0].estimate for r in results]) == pytest.approx(0.5, abs=0.03)
    assert left(results) == pytest.approx(0.5, abs=0.03)
    assert np.mean([r.aurocs[1].low > 0.5 for r in results]) <= 0.08


def test_removal_stops_where_the_lower_bound_is_at_chance():
    """An estimate over 0.5 that is not decidedly so is the last."""
    rng = np.random.default_rng(1)
    few = {"n_regroupings": 1, "max_removals": 3}
    results = [degeneracy(*planted(rng, 0.5, [1.0]), **few) for _ in range(6)]
    last = [result.aurocs[-1] for result in results]
    assert any(one.low <= 0.5 < one.estimate for one in last)
    for result in results:
        above = [one.low > 0.5 for one in result.aurocs[1:]]
        assert not any(above[-1:]) or len(above) == 3
        assert all(above[:-1])
        assert result.n_removed == (None if above[-1] else len(above))


def test_one_planted_direction_is_gone_after_one_removal():
    results = simulations(8, 0.9, [1.0], alpha=10.0)
    assert np.mean([r.aurocs[0].estimate for r in results]) > 0.75
    assert left(results) == pytest.approx(0.5, abs=0.05)
    assert all(r.n_removed == 1 for r in results)


def test_what_a_weak_penalty_misses_of_one_direction_is_no_second_one():
    """The refit scores above chance: the documented reason why a remainder is no evidence of a second one."""
    assert left(simulations(8, 0.9, [1.0], alpha=0.1)) > 0.58


def test_three_planted_directions_outlast_one_removal():
    results = simulations(8, 0.97, [0.3, 2.0, 8.0], alpha=0.1)
    assert left(results) > 0.75
    assert all(r.n_removed is None for r in results)


def test_features_may_be_those_of_a_cell_chosen_without_the_fold():
    X, y, groups = planted(np.random.default_rng(3), 0.9, [1.0])
    folds = regrouped_folds(y, groups, 5, 2)
    few = {"max_removals": 1, "folds": folds}
    lazy = degeneracy(lambda r, f: X, y, groups, alpha=np.full((2, 5), 2.0), **few)
    plain = degeneracy(X, y, groups, alpha=2.0, **few)
    assert lazy.aurocs == plain.aurocs


def test_a_single_feature_leaves_nothing():
    rng = np.random.default_rng(4)
    _, y, groups = planted(rng, 0.9, [1.0])
    only = (y + 0.5 * rng.normal(size=len(y)))[:, None]
    result = degeneracy(only, y, groups)
    assert result.aurocs[0].estimate > 0.8
    assert result.aurocs[1].estimate == 0.5
    assert result.n_removed == 1


@pytest.mark.parametrize(("n_states", "d"), [(6, 40), (12, 16)])
def test_few_distinct_states_are_used_up_without_a_blow_up(n_states, d):
    """Where items share their states, what a direction leaves is soon within rounding errors."""
    rng = np.random.default_rng(0)
    which = rng.integers(0, n_states, 60)
    X, y = rng.normal(size=(n_states, d))[which], (rng.random(60) < 0.3 + 0.4 * (which % 2))
    groups, folds = np.arange(60), regrouped_folds(y.astype(int), np.arange(60), 5, 5)
    result = degeneracy(X, y.astype(int), groups, alpha=0.01, folds=folds)
    scores = np.zeros(folds.shape)
    for r, fold_of in enumerate(folds):
        for fold in range(5):
            test = fold_of == fold
            Z = (X - X[~test].mean(axis=0)) / X[~test].std(axis=0)
            for _ in range(2):
                penalty = 0.01 * (Z[~test] ** 2).sum() / (~test).sum()
                model = Ridge(alpha=penalty, solver="svd").fit(Z[~test], 2.0 * y[~test] - 1)
                scores[r, test] = model.predict(Z[test])
                unit = model.coef_ / np.linalg.norm(model.coef_)
                Z = Z - np.outer(Z @ unit, unit)
    expected = [same_fold_auroc(y.astype(int), *rows) for rows in zip(scores, folds, strict=True)]
    assert result.aurocs[1].estimate == pytest.approx(np.mean(expected), abs=0.02)


def test_wrong_input_is_named():
    X, y, groups = planted(np.random.default_rng(5), 0.9, [1.0])
    with pytest.raises(ValueError, match="max_removals must be at least 1, got 0"):
        degeneracy(X, y, groups, max_removals=0)
    with pytest.raises(ValueError, match="lies in more than one fold"):
        degeneracy(X, y, groups, folds=np.arange(len(y)) % 5)
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match="first at item 7, feature 2"):
        degeneracy(X, y, groups, folds=grouped_folds(y, groups))

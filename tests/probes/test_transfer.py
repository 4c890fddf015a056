from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import Ridge
from sklearn.metrics import balanced_accuracy_score

from probes import Domain, RidgeProbe, regrouped_folds, same_fold_auroc, transfer_matrix
from probes.transfer import _Cut, domain_reason, shared_folds


def domain(rng, name, direction, *, offset=0.0, n_groups=30, base_rate=0.5, first_group=0):
    groups = np.repeat(np.arange(n_groups), 4) + first_group
    y = (rng.normal(size=len(groups)) > norm.ppf(1 - base_rate)).astype(int)
    X = rng.normal(size=(len(groups), len(direction))) + np.outer(y - 0.5, direction) + offset
    return Domain(name, X, y, groups)


def test_every_entry_is_the_loop_of_probes_that_never_saw_the_group():
    rng = np.random.default_rng(0)
    direction = np.zeros(12)
    direction[:3] = 1.0
    a, b = (domain(rng, name, direction) for name in "ab")
    matrix = transfer_matrix([a, b], alpha=0.5, n_regroupings=2, seed=3)
    folds = dict(zip("ab", shared_folds([a.y, b.y], [a.groups, b.groups], 5, 2, 3), strict=True))
    for s, source in enumerate((a, b)):
        for t, target in enumerate((a, b)):
            expected = []
            for r in range(2):
                scores = np.empty(len(target.y))
                for fold in range(5):
                    train, test = (folds[d.name][r] == fold for d in (source, target))
                    assert not set(source.groups[~train]) & set(target.groups[test])
                    probe = RidgeProbe(0.5).fit(source.X[~train], source.y[~train])
                    scores[test] = probe.decision_function(target.X[test])
                expected.append(same_fold_auroc(target.y, scores, folds[target.name][r]))
            assert matrix.entries[s][t].auroc.estimate == pytest.approx(np.mean(expected))
            assert matrix.auroc[s, t] == matrix.entries[s][t].auroc.estimate


def test_a_shift_costs_the_threshold_and_moving_the_mean_gives_it_back():
    rng = np.random.default_rng(1)
    direction = np.zeros(20)
    direction[0] = 2.5
    here = domain(rng, "here", direction, n_groups=60)
    there = Domain("there", here.X + 4 * direction, here.y, here.groups)
    matrix = transfer_matrix([here, there])
    diagonal, moved = matrix.entries[0]
    assert moved.auroc.estimate == pytest.approx(diagonal.auroc.estimate, abs=1e-12)
    assert moved.balanced_accuracy == pytest.approx(0.5, abs=0.01)
    assert moved.shifted_accuracy == pytest.approx(diagonal.shifted_accuracy, abs=1e-12)
    assert diagonal.balanced_accuracy == pytest.approx(norm.cdf(1.25), abs=0.06)
    assert diagonal.shifted_accuracy == pytest.approx(diagonal.balanced_accuracy, abs=0.03)


def test_directions_of_their_own_do_not_transfer_and_opposite_ones_invert():
    rng = np.random.default_rng(2)
    one, other = np.zeros((2, 20))
    one[0], other[1] = 2.5, 2.5
    domains = [
        domain(rng, "one", one, n_groups=60),
        domain(rng, "other", other, n_groups=60, first_group=100),
        domain(rng, "opposite", -one, n_groups=60, first_group=200),
    ]
    matrix = transfer_matrix(domains)
    assert (np.diag(matrix.auroc) > 0.9).all()
    assert matrix.auroc[0, 1] == pytest.approx(0.5, abs=0.08)
    assert matrix.auroc[0, 2] < 0.1
    assert matrix.entries[0][1].auroc.low < 0.5 < matrix.entries[0][1].auroc.high


def test_noise_with_few_positives_is_at_chance_by_every_number():
    """Pooled scores, or a cut that follows the base rate of the training folds, would leave 0.5."""
    rng = np.random.default_rng(4)
    found = []
    for seed in range(40):
        a = domain(rng, "a", np.zeros(30), base_rate=0.2)
        b = Domain("b", a.X + rng.normal(size=a.X.shape), a.y, a.groups)
        entries = transfer_matrix([a, b], n_regroupings=1, seed=seed).entries
        found += [
            [
                (e.auroc.estimate, e.balanced_accuracy, e.shifted_accuracy)
                for row in entries
                for e in row
            ]
        ]
    assert np.mean(found, axis=0) == pytest.approx(0.5, abs=0.03)


def test_the_cut_is_halfway_between_scores_of_groups_held_out():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 90)) * rng.uniform(0.5, 4, 90)
    y = (rng.random(60) < 0.3).astype(int)
    groups = np.repeat(np.arange(20), 3)
    cut = _Cut.fit(X, y, groups, 0.2)
    assert np.allclose(cut.direction, RidgeProbe(0.2).fit(X, y).direction_)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    penalty = 0.2 * (Z**2).sum() / len(Z)
    held_out = np.empty(60)
    for group in range(20):
        own = groups == group
        model = Ridge(alpha=penalty).fit(Z[~own], 2 * y[~own] - 1)
        held_out[own] = model.predict(Z[own])
    middle = (held_out[y == 1].mean() + held_out[y == 0].mean()) / 2
    probe = RidgeProbe(0.2).fit(X, y)
    assert cut.at + probe.intercept_ == pytest.approx(middle, abs=1e-8)


def test_accuracies_are_those_of_the_cut_raw_and_moved_by_the_mean_of_all_target_items():
    rng = np.random.default_rng(9)
    direction = np.zeros(12)
    direction[:3] = 0.6
    a, b = domain(rng, "a", direction), domain(rng, "b", direction, offset=0.2, first_group=100)
    folds = [regrouped_folds(one.y, one.groups, 4, 1) for one in (a, b)]
    entry = transfer_matrix([a, b], folds=folds).entries[0][1]
    raw, moved = np.empty((2, len(b.y)), dtype=bool)
    for fold in range(4):
        train, test = folds[0][0] != fold, folds[1][0] == fold
        cut = _Cut.fit(a.X[train], a.y[train], a.groups[train], 1.0)
        scores = b.X @ cut.direction
        raw[test] = scores[test] > cut.at
        moved[test] = scores[test] - scores.mean() + (a.X[train] @ cut.direction).mean() > cut.at
    assert entry.balanced_accuracy == pytest.approx(balanced_accuracy_score(b.y, raw))
    assert entry.shifted_accuracy == pytest.approx(balanced_accuracy_score(b.y, moved))
    assert entry.balanced_accuracy != entry.shifted_accuracy


def test_a_rare_class_is_found_where_the_intercept_would_find_none():
    rng = np.random.default_rng(6)
    direction = np.zeros(40)
    direction[:4] = 1.2
    rare = domain(rng, "rare", direction, n_groups=60, base_rate=0.15)
    again = domain(rng, "again", direction, n_groups=60, base_rate=0.15, first_group=100)
    said = RidgeProbe(50.0).fit(rare.X, rare.y).predict(again.X)
    entry = transfer_matrix([rare, again], alpha=50.0).entries[0][1]
    assert balanced_accuracy_score(again.y, said) == 0.5
    assert entry.balanced_accuracy > 0.75


def test_features_may_be_those_of_a_cell_chosen_without_the_fold():
    rng = np.random.default_rng(7)
    direction = np.zeros(10)
    direction[0] = 2.0
    a = domain(rng, "a", direction)
    asked = []

    def cell(regrouping, fold):
        asked.append((regrouping, fold))
        return a.X

    lazy = Domain("a", cell, a.y, a.groups)
    b = Domain("b", a.X[:, ::-1], a.y, a.groups)
    kwargs = {"n_regroupings": 2, "alpha": np.full((2, 5), 0.7)}
    assert np.array_equal(
        transfer_matrix([lazy, b], **kwargs).auroc, transfer_matrix([a, b], **kwargs).auroc
    )
    assert set(asked) == {(r, f) for r in range(2) for f in range(5)}


def test_what_cannot_be_scored_is_named():
    rng = np.random.default_rng(8)
    a = domain(rng, "a", np.zeros(5))
    with pytest.raises(ValueError, match="at least 2 of different names"):
        transfer_matrix([a, a])
    constant = Domain("b", a.X, np.zeros(len(a.y), int), a.groups)
    with pytest.raises(ValueError, match="domain 'b': no positive items"):
        transfer_matrix([a, constant])
    with pytest.raises(ValueError, match="'b' has 4 features and 'a' 5"):
        transfer_matrix([a, Domain("b", a.X[:, :4], a.y, a.groups)])
    folds = np.arange(len(a.y))[None, :] // 4 % 5
    with pytest.raises(ValueError, match="lies in more than one fold"):
        transfer_matrix([a, Domain("b", a.X, a.y, a.groups)], folds=[folds, (folds + 1) % 5])
    one_sided = (folds[0] == 0).astype(int)
    assert domain_reason(one_sided, a.groups, folds) == "all items of one class lie in one fold"

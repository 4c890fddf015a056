from __future__ import annotations

import numpy as np
import pytest

from probes import (
    PROBE_KINDS,
    Candidate,
    grouped_folds,
    max_statistic_test,
    probe_of,
    same_fold_auroc,
    skip_reason,
    whole_group_permutations,
    within_group_permutations,
)
from probes.column_scores import default_penalties, source_scores
from probes.simulation import clustered_data, clustered_normal, group_sizes


def test_equal_groups_exchange_their_label_vectors():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(20), 3))
    y = rng.integers(0, 2, 60)
    vectors = sorted(tuple(y[groups == g]) for g in range(20))
    permuted = whole_group_permutations(y, groups, 50)
    for column in permuted.T:
        assert sorted(tuple(column[groups == g]) for g in range(20)) == vectors
    assert (permuted != y[:, None]).any(axis=0).all()


def test_unequal_groups_stay_homogeneous():
    rng = np.random.default_rng(0)
    groups = group_sizes(rng, 30, 2, 8)
    y = (np.arange(30) % 2)[groups]
    permuted = whole_group_permutations(y, groups, 20)
    for g in range(30):
        assert (permuted[groups == g] == permuted[groups == g][0]).all()


def test_within_group_permutations_keep_every_groups_count():
    rng = np.random.default_rng(0)
    groups = rng.permutation(group_sizes(rng, 20, 2, 6))
    y = rng.integers(0, 2, len(groups))
    permuted = within_group_permutations(y, groups, 30)
    for g in range(20):
        assert (permuted[groups == g].sum(axis=0) == y[groups == g].sum()).all()
    assert (permuted != y[:, None]).any()


def test_observed_and_null_equal_refitted_ridge(out_of_fold):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 2)
    data = clustered_data(rng, groups, 90, icc=0.3, auroc=0.9)
    folds = grouped_folds(data.y, groups)
    result = max_statistic_test(
        [Candidate("a", (data.X,)), Candidate("b", (data.X[:, :8],))],
        data.y,
        groups,
        folds,
        penalties=(0.1, 10.0),
        seed=5,
    )
    permuted = whole_group_permutations(data.y, groups, 199, seed=5)
    for c, X in enumerate([data.X, data.X[:, :8]]):
        for a, alpha in enumerate((0.1, 10.0)):
            for y, ours in [
                (data.y, result.observed[c, a]),
                (permuted[:, 7], result.null[7, c, a]),
            ]:
                scores = out_of_fold(X, y, folds[None], alpha)[0]
                assert ours == pytest.approx(same_fold_auroc(y, scores, folds), abs=1e-3)
    maxima = result.null.max(axis=(1, 2))
    assert result.p_value == (1 + (maxima >= result.observed.max()).sum()) / 200
    assert result.band().shape == (2, 2)
    assert (result.band()[:, 0] < 0.5).all()
    assert (result.band()[:, 1] > 0.5).all()


@pytest.mark.parametrize("kind", ["diff_means", "lda", "logistic"])
def test_other_kinds_equal_refitted_estimators(kind):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 2)
    data = clustered_data(rng, groups, 12, icc=0.3, auroc=0.8)
    folds = grouped_folds(data.y, groups, 3)
    result = max_statistic_test([Candidate("a", (data.X,))], data.y, groups, folds, probe=kind)
    columns = np.column_stack([data.y, whole_group_permutations(data.y, groups, 199)])
    penalty = 0.01 if kind == "logistic" else np.nan
    at = 2 if kind == "logistic" else 0
    for p in (0, 3, 150):
        y = columns[:, p]
        scores = np.empty(80)
        for fold in range(3):
            test = folds == fold
            fitted = probe_of(kind, penalty).fit(data.X[~test], y[~test])
            scores[test] = fitted.decision_function(data.X[test])
        ours = result.null[p - 1, 0, at] if p else result.observed[0, at]
        assert ours == pytest.approx(same_fold_auroc(y, scores, folds), abs=2e-3)


def test_signal_between_groups_is_found_and_not_called_within():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 3)
    of_group = rng.integers(0, 2, 60)
    y = of_group[groups]
    X = rng.normal(size=(180, 10)) + 0.8 * y[:, None]
    folds = grouped_folds(y, groups)
    cell = [Candidate("a", (X,))]
    assert max_statistic_test(cell, y, groups, folds).p_value == 1 / 200
    assert max_statistic_test(cell, y, groups, folds, unit="within_group").p_value == 1


def test_family_wise_error_where_a_free_shuffle_fails():
    rejections = {"whole groups": [], "single rows": []}
    for seed in range(100):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(30), 4)
        data = clustered_data(rng, groups, 1, icc=0.6)
        if skip_reason(data.y, groups):
            continue
        folds = grouped_folds(data.y, groups, seed=seed)
        cells = [Candidate(str(i), (clustered_normal(rng, groups, 6, 0.6),)) for i in range(2)]
        for name, permuted_as in [("whole groups", groups), ("single rows", np.arange(120))]:
            p = max_statistic_test(
                cells, data.y, permuted_as, folds, penalties=(1.0,), seed=seed + 1000
            ).p_value
            rejections[name].append(p <= 0.05)
    # Of 100 at a true 5%, three binomial standard deviations are 6.5 points.
    assert np.mean(rejections["whole groups"]) < 0.115
    assert np.mean(rejections["single rows"]) > 0.12


def test_too_few_permutations_and_straddling_groups_are_refused():
    y, groups = np.arange(60) % 2, np.arange(60) // 3
    cell = [Candidate("a", (np.random.default_rng(0).normal(size=(60, 3)),))]
    with pytest.raises(ValueError, match="at least 199"):
        max_statistic_test(cell, y, groups, grouped_folds(y, groups), n_permutations=100)
    with pytest.raises(ValueError, match="more than one fold"):
        max_statistic_test(cell, y, groups, np.arange(60) % 5)


def test_a_larger_group_keeps_the_share_of_its_donor():
    """Without replacement from whole copies: a group twice as large gets every label twice."""
    groups = np.repeat([0, 1], [4, 8])
    y = np.array([1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0])
    permuted = whole_group_permutations(y, groups, 200)
    swapped = permuted[:, permuted[4:].sum(axis=0) != 6]
    assert 60 < swapped.shape[1] < 140
    assert (swapped[4:].sum(axis=0) == 2).all()


@pytest.mark.parametrize("probe", PROBE_KINDS)
def test_a_training_set_of_one_class_gives_no_score(probe):
    X = np.random.default_rng(0).normal(size=(30, 4))
    columns = np.column_stack([np.arange(30) < 10, np.arange(30) % 2]).astype(int)
    masks = np.array([np.arange(30) >= 10])
    (found,) = source_scores(probe, X, columns, default_penalties(probe))(masks)
    assert np.isnan(found.values[..., 0]).all()
    assert np.isfinite(found.values[..., 1]).all()

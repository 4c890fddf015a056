from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import LeaveOneGroupOut

from probes import (
    TRAINING_ONLY,
    check_groups,
    grouped_folds,
    leave_one_group_out,
    leave_one_stratum_out,
    regrouped_folds,
    skip_reason,
    train_on_one_folds,
)


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_groups_stay_whole_and_every_fold_is_used(seed, n_folds):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(40), rng.integers(1, 5, 40))
    y = (rng.random(40) < 0.5)[groups]
    y[rng.permutation(len(y))[:20]] = np.arange(20) % 2
    folds = grouped_folds(y, groups, n_folds, seed)
    check_groups(folds, groups)
    assert set(folds) == set(range(n_folds))


def test_folds_are_stratified():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(150), 2)
    y = (rng.random(150) < 0.3)[groups]
    folds = grouped_folds(y, groups)
    rates = [y[folds == f].mean() for f in range(5)]
    assert np.ptp(rates) < 0.05


def test_same_seed_same_folds_and_regroupings_differ():
    groups = np.arange(100) // 2
    y = np.arange(100) % 2
    first = regrouped_folds(y, groups, seed=3)
    np.testing.assert_array_equal(first, regrouped_folds(y, groups, seed=3))
    assert first.shape == (5, 100)
    assert (first[0] != first[1]).any()
    assert (first != regrouped_folds(y, groups, seed=4)).any()


def test_straddling_group_is_named():
    with pytest.raises(ValueError, match="'b' lies in more than one fold"):
        check_groups([0, 0, 0, 1], ["a", "a", "b", "b"])


@pytest.mark.parametrize(
    ("y", "groups", "reason"),
    [
        ([0] * 40, range(40), "no positive items among 40"),
        ([1] * 40, range(40), "no negative items among 40"),
        ([1] * 9 + [0] * 31, range(40), "only 9 positive items"),
        ([1, 0] * 20, [i // 10 for i in range(40)], "only 4 groups for 5 folds"),
    ],
)
def test_unscorable_cells_have_a_reason(y, groups, reason):
    assert reason in skip_reason(y, list(groups), 5)
    with pytest.raises(ValueError, match=reason):
        grouped_folds(y, list(groups))


def test_scorable_cell_has_none():
    assert skip_reason([0, 1] * 20, range(40), 5) is None


@pytest.mark.parametrize("y", [[0, 2, 1], [0.5, 1, 0], [float("nan"), 1, 0]])
def test_labels_other_than_0_and_1_are_refused(y):
    with pytest.raises(ValueError, match="only 0 and 1"):
        skip_reason(y, [1, 2, 3])


def test_leave_one_group_out_is_scikit_learns():
    groups = np.random.default_rng(0).permutation(np.repeat(["c", "a", "b"], [3, 5, 2]))
    folds = leave_one_group_out(groups)
    splits = list(LeaveOneGroupOut().split(groups, groups=groups))
    for fold, (train, test) in enumerate(splits):
        np.testing.assert_array_equal(np.flatnonzero(folds == fold), test)
        np.testing.assert_array_equal(np.flatnonzero(folds != fold), train)
    assert folds.max() == len(splits) - 1


def test_leave_one_stratum_out_keeps_groups_whole():
    strata = np.array(["math", "art", "math", "art", "law", "law"])
    groups = np.array([0, 1, 0, 2, 3, 4])
    np.testing.assert_array_equal(leave_one_stratum_out(strata, groups), [2, 0, 2, 0, 1, 1])
    with pytest.raises(ValueError, match="'0' lies in more than one stratum; merge"):
        leave_one_stratum_out(strata, [0, 0, 0, 2, 3, 4])


def test_train_on_one_tests_on_each_of_the_others():
    datasets = ["b", "a", "b", "c"]
    names, folds = train_on_one_folds(datasets, [1, 2, 1, 3])
    assert names == ("a", "b", "c")
    own = TRAINING_ONLY
    np.testing.assert_array_equal(folds, [[1, own, 1, 2], [own, 0, own, 2], [1, 0, 1, own]])
    with pytest.raises(ValueError, match="'2' lies in more than one dataset; leave it out"):
        train_on_one_folds(datasets, [1, 2, 1, 2])


@pytest.mark.parametrize("split", [leave_one_stratum_out, train_on_one_folds])
def test_a_single_part_has_no_others(split):
    with pytest.raises(ValueError, match="at least 2"):
        split(["a", "a"], [0, 1])
    with pytest.raises(ValueError, match="shape"):
        split(["a", "b"], [0, 1, 2])

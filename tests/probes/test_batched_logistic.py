from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.batched_logistic import fit_logistic_columns
from tests.probes.logistic_parity import parity, random_cell, reference

C_GRID = (1.0, 1e-3, 0.05)
N = 90


def problem(seed, n_features=20, n_columns=3):
    """A cell, its label columns and the masks of three folds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, n_features)) * rng.uniform(0.1, 50, n_features) + 20
    signal = (X - 20) / X.std(axis=0) @ rng.normal(size=(n_features, n_columns))
    Y = (signal + 5 * rng.normal(size=signal.shape) > 0).astype(float)
    folds = rng.permutation(N) % 3
    return X, Y, np.array([folds != fold for fold in range(3)])


def assert_same(decision, expected):
    """Equal to 1e-3 of the standard deviation over items."""
    assert decision.shape == expected.shape
    bound = 1e-3 * expected.std(axis=-1, keepdims=True) + 1e-6
    assert (np.abs(decision - expected) / bound).max() < 1


@pytest.mark.parametrize("seed", range(40))
def test_equals_scikit_learn_on_random_cells(seed):
    found = parity(random_cell(seed))
    assert found.holds, found


@pytest.mark.parametrize("n_features", [20, 150], ids=["more-rows", "more-features"])
def test_every_c_mask_and_column_is_the_fit_of_its_own_rows(n_features):
    X, Y, masks = problem(0, n_features)
    Y[:25, 1] = np.nan
    Y[60:, 2] = np.nan
    fits = fit_logistic_columns(X, Y, masks, C_GRID)
    assert fits.converged.all()
    # Steps that are not conjugate would be 28 and 17.
    assert fits.n_iter.max() <= 15
    for c, C in enumerate(C_GRID):
        for m, mask in enumerate(masks):
            for column, y in enumerate(Y.T):
                objective, decision = reference(X, y, mask & ~np.isnan(y), C)
                np.testing.assert_allclose(fits.objective[c, m, column], objective, rtol=1e-6)
                assert_same(fits.decision[c, m, column], decision)


def test_out_of_fold_values_come_from_the_mask_that_left_the_item_out():
    X, Y, masks = problem(0)
    fits = fit_logistic_columns(X, Y, masks, C_GRID)
    scores = fits.out_of_fold()
    assert scores.shape == (3, 3, N)
    for m, mask in enumerate(masks):
        np.testing.assert_array_equal(scores[..., ~mask], fits.decision[:, m][..., ~mask])


def test_out_of_fold_values_need_a_partition():
    X, Y, masks = problem(0)
    twice = fit_logistic_columns(X, Y, masks[[0, 1, 2, 2]], [0.1])
    with pytest.raises(ValueError, match="2 of them leave out item"):
        twice.out_of_fold()
    with pytest.raises(ValueError, match="0 of them leave out item"):
        fit_logistic_columns(X, Y, masks[:2], [0.1]).out_of_fold()


@pytest.mark.parametrize("n_features", [20, 150])
def test_directions_live_in_raw_space(n_features):
    X, Y, masks = problem(0, n_features)
    plain = fit_logistic_columns(X, Y, masks, C_GRID)
    assert plain.direction is None
    assert plain.intercept is None
    fits = fit_logistic_columns(X, Y, masks, C_GRID, weights=True)
    decision = fits.direction @ X.T + fits.intercept[..., None]
    np.testing.assert_allclose(decision, fits.decision, rtol=1e-4, atol=1e-5)


def test_a_column_with_one_class_is_left_out_and_the_others_are_not_touched():
    X, Y, masks = problem(0)
    expected = fit_logistic_columns(X, Y[:, ::2], masks, C_GRID)
    Y[masks[0], 1] = 1
    Y[~masks[0], 1] = 0
    fits = fit_logistic_columns(X, Y, masks, C_GRID, weights=True)
    assert not fits.converged[:, 0, 1].any()
    for values in (fits.decision, fits.objective, fits.direction, fits.intercept):
        assert np.isnan(values[:, 0, 1]).all()
        assert np.isfinite(values[:, 1:, 1]).all()
    assert_same(fits.decision[:, :, ::2], expected.decision)


def test_features_without_variance_leave_the_base_rate():
    X, Y, masks = problem(0)
    X[:] = np.random.default_rng(0).normal(size=20)
    fits = fit_logistic_columns(X, Y, masks, C_GRID)
    assert fits.converged.all()
    rates = np.array([Y[mask].mean(axis=0) for mask in masks])
    base = np.broadcast_to(np.log(rates / (1 - rates))[..., None], fits.decision.shape[1:])
    np.testing.assert_allclose(fits.decision, np.broadcast_to(base, fits.decision.shape), atol=1e-5)


def test_a_problem_that_is_solved_at_once_waits_for_the_others_unharmed():
    X, Y, masks = problem(0)
    X[masks[0]] = X[0]
    rows = np.flatnonzero(masks[0])
    Y[rows, 0] = np.arange(len(rows)) % 2
    Y[rows[0], 1:] = np.nan
    fits = fit_logistic_columns(X, Y, masks, C_GRID)
    np.testing.assert_allclose(fits.decision[:, 0, 0][:, rows], 0, atol=1e-6)
    assert fits.converged.all()
    assert np.isfinite(fits.decision).all()
    assert fits.n_iter.max() < 50


def test_what_did_not_converge_is_recorded_a_column():
    X, Y, masks = problem(0)
    easy = np.where(np.arange(N) % 2, 1.0, 0.0)
    X[:, 0] = 1e-6 * easy
    Y[:, 0] = easy
    full = fit_logistic_columns(X, Y, masks, [1.0])
    assert full.converged.all()
    most = int(full.n_iter.max())
    assert full.n_iter.min() < most
    short = fit_logistic_columns(X, Y, masks, [1.0], max_iter=most - 1)
    np.testing.assert_array_equal(short.converged, full.n_iter < most)
    np.testing.assert_array_equal(short.n_iter, np.minimum(full.n_iter, most - 1))
    # Stopped short, it is close, and says so.
    np.testing.assert_allclose(short.objective, full.objective, rtol=1e-4)


def test_a_looser_tolerance_takes_fewer_steps_and_costs_accuracy():
    X, Y, masks = problem(0)
    tight, loose = (fit_logistic_columns(X, Y, masks, [1.0], tol=tol) for tol in (1e-5, 1e-1))
    assert loose.n_iter.mean() < tight.n_iter.mean()
    assert (loose.objective > tight.objective).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from([20, 150]))
def test_rescaling_and_shifting_features_changes_nothing(seed, other, n_features):
    X, Y, masks = problem(seed, n_features)
    rng = np.random.default_rng(other)
    moved = X * 10 ** rng.uniform(-4, 4, n_features) * rng.choice([-1, 1], n_features)
    moved += rng.normal(size=n_features) * 100 * moved.std(axis=0)
    before, after = (fit_logistic_columns(x, Y, masks, C_GRID) for x in (X, moved))
    assert_same(after.decision, before.decision)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.permutations(range(5)), st.permutations(range(3)))
def test_order_of_columns_masks_and_c_does_not_matter(seed, columns, masks_order):
    X, Y, masks = problem(seed, n_columns=5)
    Y[:9, ::2] = np.nan
    before = fit_logistic_columns(X, Y, masks, C_GRID)
    after = fit_logistic_columns(X, Y[:, columns], masks[masks_order], C_GRID[::-1])
    assert_same(after.decision, before.decision[::-1][:, masks_order][:, :, columns])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_a_column_does_not_depend_on_its_company(seed, alone):
    X, Y, masks = problem(seed, n_columns=8)
    together = fit_logistic_columns(X, Y, masks, C_GRID)
    single = fit_logistic_columns(X, Y[:, [alone]], masks[1:2], [C_GRID[0]])
    assert_same(single.decision[0, 0, 0], together.decision[0, 1, alone])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_row_without_label_is_a_row_outside_the_mask(seed):
    X, Y, masks = problem(seed)
    rng = np.random.default_rng(seed)
    missing = rng.permutation(N) < 20
    unlabeled = np.where(missing[:, None], np.nan, Y)
    by_label = fit_logistic_columns(X, unlabeled, masks, C_GRID)
    X_elsewhere = np.where(missing[:, None], X + rng.normal(size=X.shape) * 30, X)
    by_mask = fit_logistic_columns(X_elsewhere, Y, masks & ~missing, C_GRID)
    assert_same(by_label.decision[..., ~missing], by_mask.decision[..., ~missing])


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_exchanging_the_classes_turns_the_sign(seed):
    X, Y, masks = problem(seed)
    both = fit_logistic_columns(X, np.hstack([Y, 1 - Y]), masks, C_GRID).decision
    assert_same(-both[:, :, 3:], both[:, :, :3])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": np.zeros(N)}, "X must be"),
        ({"Y": np.zeros((N - 1, 2))}, f"Y must be .* of {N} items"),
        ({"Y": np.zeros(N)}, "Y must be"),
        ({"Y": np.zeros((N, 0))}, "Y must be"),
        ({"Y": np.full((N, 1), 2)}, r"Y must hold only 0, 1 and nan, got \[2"),
        ({"train_masks": np.ones((3, N))}, "train_masks must be bool"),
        ({"train_masks": np.ones(N, dtype=bool)}, "train_masks must be bool"),
        ({"C": []}, "C must be positive"),
        ({"C": [0.1, 0.0]}, "C must be positive"),
        ({"tol": 0.0}, "tol must be positive"),
        ({"max_iter": -1}, "max_iter must be"),
    ],
)
def test_arguments_are_checked(changed, message):
    X, Y, masks = problem(0)
    with pytest.raises(ValueError, match=message):
        fit_logistic_columns(**{"X": X, "Y": Y, "train_masks": masks, "C": [0.1], **changed})


def test_non_finite_features_are_located():
    X, Y, masks = problem(0)
    X[2, 1] = np.inf
    with pytest.raises(ValueError, match="item 2, feature 1"):
        fit_logistic_columns(X, Y, masks, [0.1])

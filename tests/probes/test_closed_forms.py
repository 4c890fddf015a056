from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import DiffMeansProbe, LDAProbe
from probes.closed_forms import diff_means_scores, lda_scores


def one_by_one(probe, X, train, columns):
    fitted = (probe.fit(X[train], column[train]) for column in columns.T)
    return np.stack([one.decision_function(X[~train]) for one in fitted], axis=1)


def assert_equal_to_rounding(found, expected):
    scale = np.abs(expected).max(axis=0)
    assert (np.abs(found - expected) <= 1e-8 * np.maximum(scale, 1e-3)).all()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(12, 60),
    n_features=st.sampled_from([1, 2, 7, 30, 120]),
    shrinkage=st.sampled_from([np.nan, 0.01, 0.3, 1.0]),
    case=st.sampled_from(["plain", "constant feature", "copied feature", "offset", "float32"]),
)
def test_every_column_is_its_estimators_fit(seed, n, n_features, shrinkage, case):
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 2, (n, 4))
    columns[:2] = [[0], [1]]  # both classes in any training set below
    X = rng.normal(size=(n, n_features)) * rng.uniform(0.1, 30, n_features)
    X += columns[:, :1] * rng.normal(size=n_features)
    if case == "constant feature":
        X[:, 0] = 3.3
    elif case == "copied feature":
        X[:, 0] = X[:, -1]
    elif case == "offset":
        X += 1000
    elif case == "float32":
        X = X.astype(np.float32)
    train = np.arange(n) < 2 * n // 3
    found = lda_scores(X, train, columns, (shrinkage,))[0]
    probe = LDAProbe("auto" if np.isnan(shrinkage) else shrinkage)
    assert_equal_to_rounding(found, one_by_one(probe, X, train, columns))
    found = diff_means_scores(X, train, columns)
    assert_equal_to_rounding(found, one_by_one(DiffMeansProbe(), X, train, columns))


def test_no_shrinkage_with_more_rows_than_features():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 2, (200, 5))
    X = rng.normal(size=(200, 20)) + columns[:, :1]
    train = np.arange(200) % 5 != 0
    found = lda_scores(X, train, columns, (0.0, 0.5))
    for scores, shrinkage in zip(found, (0.0, 0.5), strict=True):
        assert_equal_to_rounding(scores, one_by_one(LDAProbe(shrinkage), X, train, columns))


@pytest.mark.parametrize("n_features", [5, 80])
def test_a_column_of_one_class_has_no_scores_and_disturbs_no_other(n_features):
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 2, (60, 3))
    columns[:, 1] = 1
    X = rng.normal(size=(60, n_features))
    train = np.arange(60) < 40
    with np.errstate(all="raise"):
        for found in (
            diff_means_scores(X, train, columns),
            lda_scores(X, train, columns, (np.nan, 0.2))[0],
        ):
            assert np.isnan(found[:, 1]).all()
            assert np.isfinite(found[:, [0, 2]]).all()

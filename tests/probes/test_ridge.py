from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from probes.ridge import RidgeSource

ALPHAS = (0.01, 1.0, 100.0)


def reference(X, train, test, targets, alpha, standardize=True):
    scaler = StandardScaler(with_std=standardize).fit(X[train])
    Z = scaler.transform(X)
    level = (Z[train] ** 2).sum() / len(train)
    model = Ridge(alpha=alpha * level, solver="svd").fit(Z[train], targets)
    return model.predict(Z[test]).reshape(len(test), -1)


@pytest.fixture(params=[20, 150], ids=["primal", "dual"])
def problem(request):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(100, request.param)) * 3 + rng.normal(size=request.param) * 50).astype(
        "f"
    )
    targets = rng.choice([-1.0, 1.0], (100, 7))
    train, test = np.arange(0, 80), np.arange(70, 100)
    return X, train, test, targets[train]


@pytest.mark.parametrize("n_columns", [1, 7])
@pytest.mark.parametrize("standardize", [True, False])
def test_equals_scikit_learn(problem, n_columns, standardize):
    X, train, test, targets = problem
    targets = targets[:, :n_columns]
    ours = RidgeSource(X, standardize=standardize).scores(train, test, targets, ALPHAS)
    assert ours.shape == (3, 30, n_columns)
    for scores, alpha in zip(ours, ALPHAS, strict=True):
        expected = reference(X.astype(float), train, test, targets, alpha, standardize)
        np.testing.assert_allclose(scores, expected, atol=2e-4)


def test_more_columns_than_test_rows_gives_the_same(problem):
    X, train, test, targets = problem
    source = RidgeSource(X)
    few = source.scores(train, test[:3], targets, ALPHAS)
    np.testing.assert_allclose(few, source.scores(train, test, targets, ALPHAS)[:, :3], atol=1e-9)


@pytest.mark.parametrize("standardize", [True, False])
def test_sparse_equals_dense(standardize):
    rng = np.random.default_rng(0)
    X = sparse.random(100, 300, density=0.1, random_state=0, format="csr")
    targets = rng.choice([-1.0, 1.0], (80, 1))
    train, test = np.arange(80), np.arange(80, 100)
    one = RidgeSource(X, standardize=standardize).scores(train, test, targets, ALPHAS)
    two = RidgeSource(X.toarray(), standardize=standardize).scores(train, test, targets, ALPHAS)
    np.testing.assert_allclose(one, two, atol=1e-4)


def test_callable_sees_training_rows_only(problem):
    X, train, test, targets = problem
    seen = []

    def features(rows):
        seen.append(rows)
        return X

    ours = RidgeSource(features).scores(train, test, targets, ALPHAS)
    np.testing.assert_array_equal(seen[0], train)
    np.testing.assert_allclose(ours, RidgeSource(X).scores(train, test, targets, ALPHAS))


def test_feature_that_is_constant_on_training_rows_is_ignored(problem):
    X, train, test, targets = problem
    extra = np.where(np.arange(100) < 80, 1e3, 5e3).astype("f")[:, None]
    ours = RidgeSource(np.hstack([X, extra])).scores(train, test, targets, ALPHAS)
    np.testing.assert_allclose(ours, RidgeSource(X).scores(train, test, targets, ALPHAS), atol=1e-4)


def test_non_finite_features_are_located():
    X = np.zeros((4, 3))
    X[2, 1] = np.inf
    with pytest.raises(ValueError, match="item 2, feature 1"):
        RidgeSource(X)

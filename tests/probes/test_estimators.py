from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from probes import DiffMeansProbe, LDAProbe, LogisticProbe, RidgeProbe

PROBES = [DiffMeansProbe(), LDAProbe(), RidgeProbe(), LogisticProbe()]


@parametrize_with_checks(PROBES)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    X = rng.normal(size=(120, 30)) * rng.uniform(0.1, 50, 30) + rng.normal(size=30) * 20
    return X + np.outer(y, rng.normal(size=30)), y


@pytest.mark.parametrize("probe", PROBES, ids=lambda p: type(p).__name__)
def test_direction_is_in_raw_space(probe, data):
    X, y = data
    probe.fit(X, y)
    decision = X @ probe.direction_ + probe.intercept_
    np.testing.assert_allclose(probe.decision_function(X), decision, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(probe.predict(X) == 1, decision > 0)


@pytest.mark.parametrize("probe", PROBES, ids=lambda p: type(p).__name__)
def test_rescaling_and_shifting_features_changes_nothing(probe, data):
    X, y = data
    scale = np.random.default_rng(1).uniform(0.01, 100, X.shape[1])
    before = probe.fit(X, y).decision_function(X)
    moved = X * scale + 7
    np.testing.assert_allclose(
        probe.fit(moved, y).decision_function(moved), before, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("n_features", [30, 200])
def test_ridge_equals_scikit_learn(n_features):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, n_features)) * 3 + 5
    y = rng.integers(0, 2, 90)
    Z = StandardScaler().fit_transform(X)
    reference = Ridge(alpha=0.3 * n_features, tol=1e-12).fit(Z, 2 * y - 1)
    ours = RidgeProbe(alpha=0.3).fit(X, y).decision_function(X)
    np.testing.assert_allclose(ours, reference.predict(Z), atol=1e-9)


def test_lda_equals_scikit_learn(data):
    X, y = data
    Z = StandardScaler().fit_transform(X)
    reference = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2).fit(Z, y)
    # The two differ in what they shrink toward by less than this on standardized features.
    ours = LDAProbe(shrinkage=0.2).fit(X, y).decision_function(X)
    assert np.corrcoef(ours, reference.decision_function(Z))[0, 1] > 0.999


def test_logistic_equals_scikit_learn(data):
    X, y = data
    Z = StandardScaler().fit_transform(X)
    reference = LogisticRegression(C=0.1, tol=1e-10, max_iter=5000).fit(Z, y)
    ours = LogisticProbe(C=0.1, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), reference.decision_function(Z), atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), reference.predict_proba(Z), atol=1e-4)


def test_one_huge_dimension_converges_and_failure_is_recorded_without_a_warning(data):
    X, y = data
    X = X.copy()
    X[:, 0] = X[:, 0] * 1e4 + 3e4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LogisticProbe().fit(X, y).converged_
        assert not LogisticProbe(C=1e6, max_iter=2).fit(X, y).converged_


def test_constant_feature_gets_no_weight(data):
    X, y = data
    X = X.copy()
    X[:, 3] = 0.1
    for probe in PROBES:
        assert probe.fit(X, y).direction_[3] == 0


def test_class_names_are_kept(data):
    X, y = data
    names = np.where(y == 1, "refuses", "complies")
    probe = DiffMeansProbe().fit(X, names)
    assert probe.classes_.tolist() == ["complies", "refuses"]
    assert set(probe.predict(X)) <= {"complies", "refuses"}


@pytest.mark.parametrize("probe", [RidgeProbe(alpha=0), LDAProbe(shrinkage=2)])
def test_bad_parameter_is_named(probe, data):
    with pytest.raises(ValueError, match=r"alpha|shrinkage"):
        probe.fit(*data)

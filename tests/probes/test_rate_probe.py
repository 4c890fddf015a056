"""The ridge of a rate: scikit-learn's on standardized rows, its checks, and its way to the disk and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from probes import RidgeRegressionProbe, about_probe, load_probe


@parametrize_with_checks([RidgeRegressionProbe()])
def test_it_passes_scikit_learns_checks(estimator, check) -> None:
    check(estimator)


@pytest.mark.parametrize("n_features", [5, 90])
def test_predictions_equal_scikit_learns(n_features: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, n_features)) * np.geomspace(1, 1e3, n_features) + 50
    y = X[:, 0] + rng.normal(size=60)
    reference = make_pipeline(StandardScaler(), Ridge(alpha=0.3 * n_features)).fit(X, y)
    ours = RidgeRegressionProbe(alpha=0.3).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), reference.predict(X), rtol=1e-8)
    np.testing.assert_allclose(X @ ours.direction_ + ours.intercept_, ours.predict(X))


def test_it_comes_back_from_the_disk_as_it_was(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 6)), rng.random(40)
    fitted = RidgeRegressionProbe(alpha=10.0).fit(X, y)
    fitted.save(tmp_path / "rate.v1", about={"layer": 3})
    loaded = load_probe(tmp_path / "rate.v1")
    assert isinstance(loaded, RidgeRegressionProbe)
    assert loaded.alpha == 10.0
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert about_probe(tmp_path / "rate.v1") == {"layer": 3}


def test_a_penalty_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="alpha must be positive, got 0"):
        RidgeRegressionProbe(alpha=0).fit(np.eye(4), np.arange(4.0))

"""The permutation test of a rate: scikit-learn's ridge, refitted, gives the same; noise is not found, signal is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probes import Candidate, grouped_folds_of_values, max_spearman_test, nested_ridge_regression
from probes.permutation import handed_on
from probes.simulation import group_sizes

GROUPS = np.repeat(np.arange(40), 2)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 12))
Y = (X[:, 0] + RNG.normal(size=80)).round(1)


def refitted(features: np.ndarray, y: np.ndarray, folds: np.ndarray, alpha: float) -> np.ndarray:
    predicted = np.empty(len(y))
    for fold in np.unique(folds):
        train = folds != fold
        # Our alpha is a multiple of the mean squared norm of a standardized row.
        model = make_pipeline(StandardScaler(), Ridge(alpha=alpha * features.shape[1]))
        predicted[~train] = model.fit(features[train], y[train]).predict(features[~train])
    return predicted


def test_observed_and_null_equal_refitted_ridge() -> None:
    folds = np.arange(80) // 2 % 2
    result = max_spearman_test(
        [Candidate("a", (X,)), Candidate.lazy("b", lambda: X[:, :5])],
        Y,
        GROUPS,
        folds,
        alphas=(0.1, 10.0),
        seed=5,
    )
    permuted = handed_on(Y, GROUPS, 199, 5)[:, 7]
    for c, features in enumerate((X, X[:, :5])):
        for a, alpha in enumerate((0.1, 10.0)):
            for y, ours in ((Y, result.observed[c, a]), (permuted, result.null[7, c, a])):
                predicted = refitted(features, y, folds, alpha)
                of_fold = [spearmanr(y[folds == f], predicted[folds == f]) for f in (0, 1)]
                # Folds weigh by the variance of their ranks, which ties alone make unequal here.
                assert ours == pytest.approx(np.mean([r.statistic for r in of_fold]), abs=2e-3)
    assert result.p_value == 1 / 200
    assert (result.band()[:, 0] < 0).all()
    assert (result.band()[:, 1] > 0).all()


def test_values_of_a_group_stay_together() -> None:
    rng = np.random.default_rng(1)
    groups = group_sizes(rng, 20, 2, 6)
    y = rng.random(20)[groups]
    for column in handed_on(y, groups, 20, 0).T:
        assert all(len(set(column[groups == g])) == 1 for g in range(20))
        assert set(column) == set(y)


def test_a_rate_that_only_groups_share_is_not_found() -> None:
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(30), 4)
    p_values = []
    for _ in range(12):
        of_group = rng.normal(size=(30, 8))
        features = of_group[groups] + 0.3 * rng.normal(size=(120, 8))
        y = rng.normal(size=30)[groups] + 0.3 * rng.normal(size=120)
        folds = grouped_folds_of_values(y, groups)
        p_values.append(max_spearman_test([Candidate("a", (features,))], y, groups, folds).p_value)
    assert 0.2 < np.mean(p_values) < 0.8
    assert min(p_values) > 0.005


def test_fewer_permutations_than_a_p_value_needs_are_refused() -> None:
    with pytest.raises(ValueError, match="n_permutations must be at least 199, got 19"):
        max_spearman_test(
            [Candidate("a", (X,))], Y, GROUPS, np.arange(80) // 2 % 2, n_permutations=19
        )


def test_training_predictions_come_from_models_that_saw_neither_fold() -> None:
    result = nested_ridge_regression([Candidate("a", (X,))], Y, GROUPS, n_regroupings=1)
    folds = result.folds[0]
    outer, inner = 0, 3
    kept = (folds != outer) & (folds != inner)
    alpha = result.selected_penalty[0, outer]
    model = make_pipeline(StandardScaler(), Ridge(alpha=alpha * X.shape[1]))
    model.fit(X[kept], Y[kept])
    ours = result.training_predicted[0, outer]
    np.testing.assert_allclose(ours[folds == inner], model.predict(X[folds == inner]), atol=1e-4)
    assert (ours[folds == outer] == 0).all()
    assert result.modal[0] == "a"
    assert result.curve[0] == pytest.approx(result.spearman.estimate, abs=0.05)

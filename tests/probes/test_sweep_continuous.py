from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from probes import (
    grouped_folds_of_values,
    r2_interval,
    same_fold_spearman,
    spearman_interval,
    sweep,
)

GROUPS = np.repeat(np.arange(50), 3)
ALPHAS = (0.1, 10.0)


@pytest.fixture
def planted():
    rng = np.random.default_rng(0)
    rate = rng.integers(0, 6, 150) / 5
    arrays = {("resid_post", i, "prompt_last"): rng.normal(size=(150, 12)) for i in range(3)}
    arrays["resid_post", 1, "prompt_last"] += np.outer(rate, rng.normal(size=12)) * 2
    return arrays, rate


def out_of_fold(X, y, folds, alpha):
    predicted = np.empty(len(y))
    for fold in np.unique(folds):
        test = folds == fold
        scaler = StandardScaler().fit(X[~test])
        Z = scaler.transform(X[~test])
        model = Ridge(alpha * (Z**2).sum() / len(Z)).fit(Z, y[~test])
        predicted[test] = model.predict(scaler.transform(X[test]))
    return predicted


def test_rows_are_scikit_learns_ridge(planted):
    arrays, rate = planted
    tokens = np.where(np.arange(150) < 30, np.nan, 100 * rate + GROUPS)
    labels = {"rate": rate, "tokens": tokens}
    result = sweep(
        arrays,
        labels,
        groups=GROUPS,
        probe="ridge",
        outcome="continuous",
        penalties=ALPHAS,
        n_permutations=20,
    )
    table = result.to_frame()
    assert list(table.target) == ["rate", "rate", "tokens", "tokens"] * 3
    assert "auroc" not in table
    assert table[table.target == "rate"].r2.idxmax() in (4, 5)
    for row in table.itertuples():
        rows = np.flatnonzero(~np.isnan(labels[row.target]))
        y, groups = labels[row.target][rows], GROUPS[rows]
        folds = grouped_folds_of_values(y, groups)
        predicted = out_of_fold(
            arrays[row.site, row.layer, row.position][rows], y, folds, row.penalty
        )
        for name, interval_of in (("r2", r2_interval), ("spearman", spearman_interval)):
            one = interval_of(y, predicted, folds, groups, estimand="procedure")
            found = [getattr(row, name + end) for end in ("", "_low", "_high")]
            np.testing.assert_allclose(found, (one.estimate, one.low, one.high), atol=1e-3)
        assert (row.n, row.n_groups) == (len(rows), len(np.unique(groups)))
    assert result.null.shape == (12, 20)
    planted_row = table[(table.target == "rate") & (table.layer == 1)].iloc[0]
    assert planted_row.null_high < planted_row.spearman
    assert abs(np.nanmean(result.null)) < 0.1


def test_null_is_spearman_of_permuted_values(planted):
    arrays, _ = planted
    y = np.where(np.arange(150) % 7 == 0, 3.5, GROUPS % 2 + 1.0)
    result = sweep(arrays, y, groups=GROUPS, probe="ridge", outcome="continuous", n_permutations=5)
    folds = grouped_folds_of_values(y, GROUPS)
    rng = np.random.default_rng(0)
    permuted = np.empty(150)
    for g, donor in enumerate(rng.permutation(50)):
        permuted[g == GROUPS] = y[donor == GROUPS]
    X = arrays["resid_post", 0, "prompt_last"]
    expected = same_fold_spearman(permuted, out_of_fold(X, permuted, folds, 1.0), folds)
    assert result.null[0, 0] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("y", "reason"),
    [
        (np.full(150, 0.5), "the same value for all 150 items"),
        (np.full(150, np.nan), "no labeled items"),
        (np.where(GROUPS < 3, np.arange(150.0), np.nan), "only 3 groups for 5 folds"),
    ],
)
def test_targets_that_cannot_be_predicted_are_skipped(planted, y, reason):
    arrays, rate = planted
    labels = {"bad": y, "rate": rate}
    table = sweep(arrays, labels, groups=GROUPS, probe="ridge", outcome="continuous").to_frame()
    assert set(table[table.target == "bad"].skipped) == {reason}
    assert table[table.target == "rate"].r2.notna().all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": {"p": [0.2] * 149 + ["often"]}}, "target 'p' .* first 'often' at item 149"),
        ({"y": {"p": [0.2] * 149 + [np.inf]}}, "target 'p' is inf at item 149"),
        ({"probe": "logistic"}, "a continuous outcome takes 'ridge'"),
        ({"outcome": "rate"}, "outcome must be 'binary' or 'continuous'"),
        ({"outcome": "binary"}, "target 'y': y must hold only 0 and 1.*outcome='continuous'"),
    ],
)
def test_what_is_no_rate_is_refused(planted, changed, message):
    arrays, rate = planted
    given = {"y": rate, "groups": GROUPS, "probe": "ridge", "outcome": "continuous"}
    with pytest.raises(ValueError, match=message):
        sweep(arrays, **{**given, **changed})

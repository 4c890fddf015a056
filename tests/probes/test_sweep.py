from __future__ import annotations

import gc
import os
import weakref
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from probes import (
    DiffMeansProbe,
    LDAProbe,
    LogisticProbe,
    RidgeProbe,
    auroc_interval,
    column_scores,
    grouped_folds,
    same_fold_auroc,
    sweep,
)
from probes._parallel import map_in_threads
from probes.batched_logistic import fit_logistic_columns
from probes.permutation import whole_group_permutations

CELLS = [("embed", None, "prompt_last"), *(("resid_post", i, "prompt_last") for i in range(3))]
C_GRID = (1e-3, 0.1)


class ArrayReader:
    def __init__(self, arrays):
        self.arrays = dict(zip(CELLS, arrays, strict=True))

    def cells(self):
        return list(self.arrays)

    def read(self, site, *, layer, position):
        return self.arrays[site, layer, position]


@pytest.fixture
def planted():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 2)
    y = rng.integers(0, 2, 120)
    arrays = rng.normal(size=(4, 120, 40)).astype("f")
    arrays[2] += np.outer(y, rng.normal(size=40)) * 0.6
    return arrays, y, groups


def out_of_fold(X, y, folds, C):
    """Decision values of every item by scikit-learn, trained to convergence on the other folds."""
    scores = np.empty(len(y))
    for fold in np.unique(folds):
        test = folds == fold
        scaler = StandardScaler().fit(X[~test].astype(float))
        model = LogisticRegression(C=C, tol=1e-9, max_iter=10_000)
        model.fit(scaler.transform(X[~test].astype(float)), y[~test])
        scores[test] = model.decision_function(scaler.transform(X[test].astype(float)))
    return scores


@pytest.mark.parametrize("probe", ["diff_means", "lda", "ridge", "logistic", LogisticProbe(C=1.0)])
def test_planted_layer_stands_out(planted, probe):
    arrays, y, groups = planted
    table = sweep(ArrayReader(arrays), y, groups=groups, probe=probe).to_frame()
    assert table.auroc.argmax() == 2
    assert table.ci_low[2] > 0.7
    assert (table.ci_low < table.auroc).all()
    assert (table.auroc < table.ci_high).all()
    assert table.converged.all()
    assert set(table.n_groups) == {60}
    assert list(table.site) == ["embed", "resid_post", "resid_post", "resid_post"]
    assert set(table.target) == {"y"}
    assert table.null_low.isna().all()


def test_every_row_is_the_fit_of_its_own_target_and_c(planted):
    arrays, y, groups = planted
    other = np.where(np.arange(120) < 30, np.nan, arrays[1, :, 0] > 0)
    labels = {"planted": y, "same items": 1 - y, "other": other}
    table = sweep(ArrayReader(arrays), labels, groups=groups, penalties=C_GRID).to_frame()
    assert list(table.target[:6]) == ["planted"] * 2 + ["same items"] * 2 + ["other"] * 2
    assert list(table.penalty[:2]) == list(C_GRID)
    assert len(table) == 4 * 3 * 2
    assert table.converged.all()
    for row in table.itertuples():
        rows = np.flatnonzero(~np.isnan(np.asarray(labels[row.target], dtype=float)))
        own = np.asarray(labels[row.target])[rows].astype(int)
        X = arrays[
            CELLS.index((row.site, None if row.site == "embed" else row.layer, row.position))
        ]
        folds = grouped_folds(own, groups[rows])
        scores = out_of_fold(X[rows], own, folds, row.penalty)
        expected = auroc_interval(own, scores, folds, groups[rows], estimand="procedure")
        found = row.auroc, row.ci_low, row.ci_high
        np.testing.assert_allclose(
            found, (expected.estimate, expected.low, expected.high), atol=2e-3
        )
        assert row.n == len(rows)
        assert row.n_groups == len(np.unique(groups[rows]))


@pytest.mark.parametrize(
    ("probe", "estimator", "digits"),
    [("ridge", RidgeProbe(), 1e-3), ("diff_means", DiffMeansProbe(), 0), ("lda", LDAProbe(), 0)],
)
def test_closed_forms_are_their_estimators(planted, probe, estimator, digits):
    arrays, y, groups = planted
    permuted = {"groups": groups, "n_permutations": 4}
    found, expected = (
        sweep(ArrayReader(arrays), y, probe=p, **permuted) for p in (probe, estimator)
    )
    np.testing.assert_allclose(found.null, expected.null, atol=digits)
    np.testing.assert_allclose(found.to_frame().auroc, expected.to_frame().auroc, atol=digits)
    assert set(found.to_frame().penalty.dropna()) <= {1.0}


@pytest.mark.parametrize(("probe", "name"), [("ridge", "alpha"), ("lda", "shrinkage")])
def test_a_grid_of_penalties_is_a_row_each(planted, probe, name):
    arrays, y, groups = planted
    estimator = {"ridge": RidgeProbe, "lda": LDAProbe}[probe]
    grid = (0.5, 0.02)
    table = sweep(ArrayReader(arrays), y, groups=groups, probe=probe, penalties=grid).to_frame()
    assert list(table.penalty[:2]) == list(grid)
    for penalty in grid:
        alone = estimator(**{name: penalty})
        expected = sweep(ArrayReader(arrays), y, groups=groups, probe=alone).to_frame()
        np.testing.assert_allclose(table[table.penalty == penalty].auroc, expected.auroc, atol=1e-3)


def test_null_is_that_of_whole_group_permutations(planted):
    arrays, y, groups = planted
    result = sweep(
        ArrayReader(arrays), y, groups=groups, penalties=C_GRID, n_permutations=30, seed=3
    )
    assert result.null.shape == (8, 30)
    permuted = whole_group_permutations(y, groups, 30, seed=3)
    folds = grouped_folds(y, groups, seed=3)
    expected = same_fold_auroc(
        permuted[:, 7], out_of_fold(arrays[2], permuted[:, 7], folds, C_GRID[1]), folds
    )
    np.testing.assert_allclose(result.null[5, 7], expected, atol=2e-3)
    table = result.to_frame()
    np.testing.assert_allclose(table.null_low, np.quantile(result.null, 0.025, axis=1))
    np.testing.assert_allclose(table.null_high, np.quantile(result.null, 0.975, axis=1))
    assert table.auroc[5] > table.null_high[5]


def test_given_folds_serve_all_targets(planted):
    arrays, y, groups = planted
    folds = groups % 4
    labels = {"a": y, "b": np.where(np.arange(120) < 20, np.nan, y)}
    table = sweep(
        ArrayReader(arrays), labels, groups=groups, penalties=0.01, folds=folds
    ).to_frame()
    for target, rows in (("a", slice(0, 120)), ("b", slice(20, 120))):
        expected = same_fold_auroc(
            y[rows], out_of_fold(arrays[2][rows], y[rows], folds[rows], 0.01), folds[rows]
        )
        found = table[(table.target == target) & (table.layer == 1)].auroc.item()
        np.testing.assert_allclose(found, expected, atol=2e-3)
    with pytest.raises(ValueError, match="lies in more than one fold"):
        sweep(ArrayReader(arrays), y, groups=groups, folds=np.arange(120) % 4)


def test_arrays_are_read_as_a_cache_is(planted):
    arrays, y, groups = planted
    by_cell = dict(zip(CELLS, arrays, strict=True))
    expected = sweep(ArrayReader(arrays), y, groups=groups)
    assert sweep(by_cell, y, groups=groups).rows == expected.rows


def test_progress_counts_cells_and_workers_keep_to_one_thread(planted):
    arrays, y, groups = planted
    seen = []
    sweep(ArrayReader(arrays), y, groups=groups, progress=lambda *step: seen.append(step))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert map_in_threads(lambda _: torch.get_num_threads(), [0, 1], None) == [1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_cells_are_not_kept(planted):
    arrays, y, groups = planted
    held = []

    class Counting(ArrayReader):
        def read(self, site, *, layer, position):
            gc.collect()
            X = super().read(site, layer=layer, position=position).copy()
            held[:] = [one for one in held if one() is not None]
            held.append(weakref.ref(X))
            most.append(len(held))
            return X

    most = []
    reader = Counting(arrays)
    reader.arrays = {("resid_post", i, "prompt_last"): arrays[i % 4] for i in range(24)}
    sweep(reader, y, groups=groups)
    assert len(most) == 24
    assert max(most) <= (os.cpu_count() or 1) + 1


def test_non_convergence_is_a_column(planted):
    arrays, y, groups = planted
    stubborn = LogisticProbe(C=1e6, max_iter=1)
    table = sweep(ArrayReader(arrays), y, groups=groups, probe=stubborn).to_frame()
    assert not table.converged.any()
    assert table.auroc.notna().all()


def test_non_convergence_of_the_batched_solver_is_a_column(planted, monkeypatch):
    arrays, y, groups = planted
    short = partial(fit_logistic_columns, max_iter=1)
    monkeypatch.setattr(column_scores, "fit_logistic_columns", short)
    table = sweep(ArrayReader(arrays), y, groups=groups, penalties=(1e-5, 1.0)).to_frame()
    assert not table.converged[table.penalty == 1.0].any()
    assert table.auroc.notna().all()


def test_one_class_is_skipped_with_its_reason(planted):
    arrays, _, groups = planted
    table = sweep(ArrayReader(arrays), np.zeros(120, int), groups=groups).to_frame()
    assert len(table) == 4
    assert table.auroc.isna().all()
    assert table.skipped.str.contains("no positive items").all()


def test_a_target_that_cannot_be_scored_leaves_the_others_alone(planted):
    arrays, y, groups = planted
    few = np.where(groups < 3, y, np.nan)
    one_group = np.where(groups < 12, 1.0, 0.0)
    labels = {
        "few": few,
        "none": np.full(120, np.nan),
        "good": y,
        "one fold": one_group,
    }
    folds = np.minimum(groups // 12, 4)
    table = sweep(
        ArrayReader(arrays), labels, groups=groups, folds=folds, penalties=C_GRID, n_permutations=3
    ).to_frame()
    reasons = dict(zip(table.target, table.skipped, strict=True))
    assert "only" in reasons["few"]
    assert reasons["none"] == "no labeled items"
    assert reasons["one fold"] == "one class only outside fold 0"
    assert table[table.target == "good"].skipped.isna().all()
    alone = sweep(ArrayReader(arrays), y, groups=groups, folds=folds, penalties=C_GRID).to_frame()
    np.testing.assert_array_equal(table[table.target == "good"].auroc, alone.auroc)
    assert table[table.target != "good"].auroc.isna().all()


def test_folds_without_a_pair_are_skipped(planted):
    arrays, _, groups = planted
    folds = groups // 15
    y = (folds % 2 == 0).astype(int)
    table = sweep(ArrayReader(arrays), y, groups=groups, folds=folds).to_frame()
    assert set(table.skipped) == {"no fold holds both classes"}


def test_a_permutation_with_one_class_is_left_out_of_the_null():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(10), 12)
    y = np.zeros(120, int)
    y[::12] = 1
    y[:12] = 1
    arrays = {("embed", None, "x"): rng.normal(size=(120, 5))}
    folds = groups % 2
    result = sweep(arrays, y, groups=groups, folds=folds, n_permutations=40)
    assert result.rows[0].skipped is None
    permuted = whole_group_permutations(y, groups, 40)
    solvable = [all(len(set(p[folds == f])) == 2 for f in (0, 1)) for p in permuted.T]
    np.testing.assert_array_equal(np.isfinite(result.null[0]), solvable)


def test_bad_input_names_the_fault(planted):
    arrays, y, groups = planted
    with pytest.raises(ValueError, match="choose one of diff_means"):
        sweep(ArrayReader(arrays), y, groups=groups, probe="svm")
    with pytest.raises(ValueError, match="80 labels but cell"):
        sweep(ArrayReader(arrays), y[:80], groups=groups[:80])
    arrays[1, 5, 3] = np.nan
    with pytest.raises(ValueError, match=r"cell \(resid_post, 0, prompt_last\): nan.*item 5;"):
        sweep(ArrayReader(arrays), y, groups=groups)
    reader = ArrayReader(arrays)
    reader.ids = [f"id-{i}" for i in range(120)]
    with pytest.raises(ValueError, match="item 5 \\('id-5'\\)"):
        sweep(reader, y, groups=groups)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": {}}, "y names no target"),
        (
            {"y": {"a": ["yes"] * 120}},
            "y: target 'a' holds labels that are no numbers, first 'yes' at item 0",
        ),
        ({"y": {"a": np.arange(120)}}, "target 'a': y must hold only 0 and 1"),
        ({"y": {"a": np.zeros(9)}}, "y: target 'a' has labels of shape"),
        ({"penalties": 0.0}, r"penalties \(C of logistic\) must be positive"),
        ({"penalties": []}, r"penalties \(C of logistic\) must be positive"),
        ({"penalties": 1.0, "probe": "diff_means"}, "diff_means has none"),
        ({"device": "cuda:99"}, "device: 'cuda:99' is not there"),
        ({"device": "nonsense"}, "device: 'nonsense' is not there"),
        ({"device": "meta", "probe": "lda"}, "device: 'meta' is for probe='logistic'"),
        ({"folds": np.zeros(3)}, "folds has shape"),
        ({"n_permutations": -1}, "n_permutations must be at least 0"),
    ],
)
def test_arguments_are_checked(planted, changed, message):
    arrays, y, groups = planted
    with pytest.raises(ValueError, match=message):
        sweep(**{"reader": ArrayReader(arrays), "y": y, "groups": groups, **changed})


def test_targets_with_folds_of_their_own_are_scored_as_if_alone():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 4)
    y = {"a": rng.integers(0, 2, 120), "b": (groups % 3 == 0).astype(int)}
    cells = {("s", 0, "p"): rng.normal(size=(120, 5)) + 0.3 * y["b"][:, None]}
    together = sweep(cells, y, groups=groups, probe="ridge").rows
    for row, (name, labels) in zip(together, y.items(), strict=True):
        assert row == sweep(cells, {name: labels}, groups=groups, probe="ridge").rows[0]

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from probes import (
    Candidate,
    batched_logistic,
    column_scores,
    nested_probe,
    nested_ridge,
    probe_of,
    same_fold_auroc,
    within_fold_zscores,
)
from probes.batched_logistic import fit_logistic_columns
from probes.nested_folds import NestedCell, selected_cells
from probes.simulation import clustered_data, clustered_normal, group_sizes

ALPHAS = (0.01, 1.0, 100.0)


def planted(seed=0, n_cells=3, auroc=0.85):
    rng = np.random.default_rng(seed)
    groups = group_sizes(rng, 50, 2, 3)
    data = clustered_data(rng, groups, 12, icc=0.3, auroc=auroc)
    cells = [rng.normal(size=data.X.shape) for _ in range(n_cells - 1)]
    return [*cells, data.X], data.y, groups


def slow_nested(cells, y, folds):
    """The same selection written as loops over scikit-learn fits."""

    def fit_predict(X, train, test, alpha):
        scaler = StandardScaler().fit(X[train])
        Z = scaler.transform(X)
        model = Ridge(alpha=alpha * X.shape[1]).fit(Z[train], 2 * y[train] - 1)
        return model.predict(Z[test])

    selected, scores = [], np.empty(len(y))
    for o in range(5):
        best = (-1.0, None)
        for alpha in reversed(ALPHAS):
            for c, X in enumerate(cells):
                inner = np.full(len(y), 0.0)
                for i in set(range(5)) - {o}:
                    train = (folds != o) & (folds != i)
                    inner[folds == i] = fit_predict(X, train, folds == i, alpha)
                rows = folds != o
                auroc = same_fold_auroc(y[rows], inner[rows], folds[rows])
                if auroc > best[0]:
                    best = (float(auroc), (c, alpha))
        c, alpha = best[1]
        selected.append((c, alpha))
        scores[folds == o] = fit_predict(cells[c], folds != o, folds == o, alpha)
    return selected, scores


def test_equals_nested_loops_over_scikit_learn():
    cells, y, groups = planted()
    candidates = [Candidate(str(i), (X,)) for i, X in enumerate(cells)]
    result = nested_ridge(candidates, y, groups, alphas=ALPHAS, n_regroupings=2)
    for r, folds in enumerate(result.folds):
        selected, scores = slow_nested(cells, y, folds)
        ours = zip(result.selected_candidate[r], result.selected_penalty[r], strict=True)
        assert list(ours) == selected
        expected = same_fold_auroc(y, scores, folds)
        assert same_fold_auroc(y, result.scores[r], folds) == pytest.approx(expected, abs=1e-3)


GRIDS = {"diff_means": (np.nan,), "lda": (np.nan, 0.1, 0.9), "logistic": (1.0, 0.01, 1e-4)}
"""Weakest first."""


@pytest.mark.parametrize("kind", GRIDS)
def test_every_kind_equals_nested_loops_over_its_estimator(kind):
    cells, y, groups = planted()
    grid = GRIDS[kind]
    result = nested_probe(
        [Candidate(str(i), (X,)) for i, X in enumerate(cells)],
        y,
        groups,
        probe=kind,
        penalties=None if kind == "diff_means" else sorted(grid),
        n_folds=4,
        n_regroupings=2,
    )
    np.testing.assert_array_equal(result.penalties, grid)
    assert result.n_unconverged == 0
    for r, folds in enumerate(result.folds):

        def scores(c, penalty, out, folds=folds):
            """Of the items of the folds `out`, by a probe of all others."""
            test = np.isin(folds, out)
            probe = probe_of(kind, penalty).fit(cells[c][~test], y[~test])
            return within_fold_zscores(probe.decision_function(cells[c])[test], folds[test])

        for o in range(4):
            best = (-1.0, 0, 0)
            for p, penalty in enumerate(grid):
                for c in range(3):
                    inner = np.zeros(len(y))
                    for i in set(range(4)) - {o}:
                        both = np.isin(folds, (o, i))
                        inner[folds == i] = scores(c, penalty, (o, i))[folds[both] == i]
                    rows = folds != o
                    auroc = same_fold_auroc(y[rows], inner[rows], folds[rows])
                    best = max(best, (float(auroc), p, -c))
                    if (c, p) == (result.selected_candidate[r, o], at(result, r, o)):
                        chosen_training = inner
            _, p, minus_c = best
            assert (result.selected_candidate[r, o], at(result, r, o)) == (-minus_c, p)
            np.testing.assert_allclose(
                result.scores[r, folds == o], scores(-minus_c, grid[p], (o,)), atol=5e-3
            )
            np.testing.assert_allclose(result.training_scores[r, o], chosen_training, atol=5e-3)


def at(result, r, o):
    """Index of the selected penalty."""
    same = np.isclose(result.penalties, result.selected_penalty[r, o], equal_nan=True)
    return int(same.argmax())


def test_fits_that_do_not_converge_are_counted(monkeypatch):
    cells, y, groups = planted()
    short = partial(fit_logistic_columns, max_iter=1)
    monkeypatch.setattr(column_scores, "fit_logistic_columns", short)
    result = nested_probe(
        [Candidate("a", (cells[2],))], y, groups, probe="logistic", penalties=(1.0,), n_folds=3
    )
    assert result.n_unconverged == 5 * 6


def test_logistic_fits_do_not_depend_on_how_many_move_together(monkeypatch):
    cells, y, groups = planted()
    given = {"probe": "logistic", "n_folds": 3, "n_regroupings": 2}
    together = nested_probe([Candidate("a", (cells[2],))], y, groups, **given)
    monkeypatch.setattr(batched_logistic, "CPU_BYTES", 1)
    alone = nested_probe([Candidate("a", (cells[2],))], y, groups, **given)
    np.testing.assert_allclose(alone.scores, together.scores, atol=1e-3)
    np.testing.assert_array_equal(alone.selected_penalty, together.selected_penalty)


@pytest.mark.parametrize("kind", ["diff_means", "lda", "logistic"])
def test_features_may_be_refitted_on_training_rows(kind):
    cells, y, groups = planted()
    seen = []

    def refitted(train):
        seen.append(len(train))
        return cells[2]

    given = {"probe": kind, "n_folds": 3, "n_regroupings": 1}
    plain = nested_probe([Candidate("a", (cells[2],))], y, groups, **given)
    again = nested_probe([Candidate("a", (refitted,))], y, groups, **given)
    np.testing.assert_allclose(again.scores, plain.scores, atol=1e-3)
    assert len(seen) == 6
    assert max(seen) < len(y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"probe": "svm"},
            "probe 'svm' is unknown; choose one of diff_means, lda, ridge, logistic",
        ),
        ({"probe": "diff_means", "penalties": (1.0,)}, "diff_means has none"),
        ({"probe": "lda", "penalties": (2.0,)}, r"shrinkage of lda\) must be in \[0, 1\]"),
        ({"probe": "logistic", "penalties": ()}, "C of logistic.*at least one"),
        ({"probe": "logistic", "device": "cuda:99"}, "device: 'cuda:99' is not there"),
        ({"probe": "lda", "device": "meta"}, "device: 'meta' is for probe='logistic'"),
        ({"probe": "lda", "standardize": False}, "standardize: False is for probe='ridge'"),
    ],
)
def test_what_a_kind_cannot_have_is_refused(given, message):
    cells, y, groups = planted()
    with pytest.raises(ValueError, match=message):
        nested_probe([Candidate("a", (cells[0],))], y, groups, **given)
    sparse_cell = Candidate("words", (sparse.csr_array(cells[0]),))
    with pytest.raises(ValueError, match="candidate 'words': features are sparse"):
        nested_probe([sparse_cell], y, groups, probe="logistic")


def test_planted_cell_is_found():
    cells, y, groups = planted(n_cells=5)
    result = nested_ridge([Candidate(str(i), (X,)) for i, X in enumerate(cells)], y, groups)
    assert result.modal[0] == "4"
    assert result.curve.argmax() == 4
    assert result.curve[4] > 0.7
    assert result.candidate_scores.shape == (5, 5, len(y))


def test_outer_fold_does_not_influence_its_own_selection():
    cells, y, groups = planted()
    candidates = [Candidate(str(i), (X,)) for i, X in enumerate(cells)]
    before = nested_ridge(candidates, y, groups, n_regroupings=1)
    held_out = before.folds[0] == 0
    changed = [np.where(held_out[:, None], np.float32(7), X) for X in cells]
    changed = [Candidate(str(i), (X,)) for i, X in enumerate(changed)]
    after = nested_ridge(changed, y, groups, n_regroupings=1)
    assert before.selected_candidate[0, 0] == after.selected_candidate[0, 0]
    assert before.selected_penalty[0, 0] == after.selected_penalty[0, 0]


def test_ties_go_to_the_larger_alpha_then_the_first_cell():
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    one_feature = (y + rng.normal(size=100))[:, None]
    result = nested_ridge(
        [Candidate("a", (one_feature,)), Candidate("b", (one_feature,))], y, np.arange(100)
    )
    assert (result.selected_candidate == 0).all()
    assert (result.selected_penalty == max(result.penalties)).all()


def test_several_sources_are_averaged():
    rng = np.random.default_rng(0)
    groups = np.arange(120)
    y = rng.integers(0, 2, 120)
    direction = rng.normal(size=(1, 10)) * 0.3
    views = [y[:, None] * direction + rng.normal(size=(120, 10)) for _ in range(6)]
    together = nested_ridge([Candidate("all", tuple(views))], y, groups)
    alone = nested_ridge([Candidate("one", (views[0],))], y, groups)
    assert together.curve[0] > alone.curve[0] + 0.05


def test_pure_noise_scores_one_half():
    selected = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(20), 4)
        data = clustered_data(rng, groups, 1, icc=0.5)
        cells = [Candidate(str(i), (clustered_normal(rng, groups, 4, 0.5),)) for i in range(4)]
        try:
            result = nested_ridge(cells, data.y, groups, n_regroupings=1, alphas=(0.1, 10))
        except ValueError:  # an unlucky draw leaves fewer than 10 items of a class
            continue
        selected.append(same_fold_auroc(data.y, result.scores[0], result.folds[0]))
    assert len(selected) > 110
    # Standard deviation of one is about 0.08, of the mean 0.007.
    assert np.mean(selected) == pytest.approx(0.5, abs=0.02)


def test_progress_and_errors_name_the_candidate():
    cells, y, groups = planted()
    calls = []
    nested_ridge(
        [Candidate("a", (cells[0],)), Candidate("b", (cells[1],))],
        y,
        groups,
        n_regroupings=1,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls == [(1, 2), (2, 2)]
    with pytest.raises(ValueError, match=r"candidate 'bad'.*item 0, feature 0"):
        nested_ridge([Candidate("bad", (cells[0] * np.nan,))], y, groups)
    with pytest.raises(ValueError, match="alpha of ridge"):
        nested_ridge([Candidate("a", (cells[0],))], y, groups, alphas=(0.0, 1.0))


def test_of_equally_good_cells_the_strongest_penalty_wins_and_then_the_first():
    def cell(quality, penalty):
        nothing = np.empty(0)
        return NestedCell(np.array([quality]), np.array([penalty]), nothing, nothing, 0)

    cells = [cell([0.7, 0.7], [0, 1]), cell([0.7, 0.7], [2, 1]), cell([0.7, 0.8], [2, 0])]
    assert selected_cells(cells).tolist() == [[1, 2]]
    assert selected_cells(cells[:2]).tolist() == [[1, 0]]

"""What is fitted on features, labels and groups refuses those that do not fit together, in one line that names them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from probes import (
    PROBE_KINDS,
    Candidate,
    Domain,
    degeneracy,
    grouped_folds,
    max_class_statistic_test,
    max_spearman_test,
    max_statistic_test,
    nested_multinomial,
    nested_probe,
    nested_ridge_regression,
    ridge_directions,
    sample_efficiency,
    selectivity,
    text_bins,
    transfer_matrix,
)
from probes.ridge import RidgeSource

N = 80
GROUPS = np.repeat(np.arange(20), 4)
Y = np.tile([0, 1], N // 2)
X = np.random.default_rng(0).normal(size=(N, 3))
FOLDS = grouped_folds(Y, GROUPS)
DOMAINS = [Domain(name, X, Y, GROUPS) for name in "ab"]
IN_TWO_GROUPS = [Domain(name, X, Y, GROUPS // 10) for name in "ab"]


def one(X):
    return [Candidate("cell", (X,))]


def refitted(X):
    return [Candidate("cell", (lambda rows: X,))]


FITS = {
    **{
        f"nested {kind}": lambda X, y, g, kind=kind: nested_probe(
            one(X), y, g, probe=kind, n_folds=3, n_regroupings=1
        )
        for kind in PROBE_KINDS
    },
    **{
        f"refitted {kind}": lambda X, y, g, kind=kind: nested_probe(
            refitted(X), y, g, probe=kind, n_folds=3, n_regroupings=1
        )
        for kind in PROBE_KINDS
    },
    **{
        f"maximum {kind}": lambda X, y, g, kind=kind: max_statistic_test(
            one(X), y, g, FOLDS, probe=kind
        )
        for kind in ("ridge", "lda", "diff_means")
    },
    "within groups": lambda X, y, g: max_statistic_test(one(X), y, g, FOLDS, unit="within_group"),
    "multinomial": lambda X, y, g: nested_multinomial(
        one(X), y, g, penalties=[0.01], n_folds=3, n_regroupings=1
    ),
    "maximum of classes": lambda X, y, g: max_class_statistic_test(one(X), y, g, FOLDS),
    "regression": lambda X, y, g: nested_ridge_regression(one(X), y, g, n_folds=3, n_regroupings=1),
    "maximum of rates": lambda X, y, g: max_spearman_test(one(X), y, g, FOLDS),
    "degeneracy": lambda X, y, g: degeneracy(X, y, g, n_regroupings=1, max_removals=1),
    "transfer": lambda X, y, g: transfer_matrix(
        [Domain("a", X, y, g), Domain("b", X, y, g)], n_regroupings=1
    ),
    "learning": lambda X, y, g: sample_efficiency(X, y, g, [8], folds=FOLDS, n_draws=1),
    "selectivity": lambda X, y, g: selectivity(X, y, np.arange(N) % 6, g, FOLDS, alpha=1.0),
}
with_nan = X.copy()
with_nan[7, 2] = np.nan
FEATURES = {
    "too few": (X[:-1], r"\[item, feature\] of 80 items, got shape \(79, 3\)"),
    "too many": (np.vstack([X, X[:5]]), r"\[item, feature\] of 80 items, got shape \(85, 3\)"),
    "a vector": (X[:, 0], r"\[item, feature\] of 80 items, got shape \(80,\)"),
    "none": (X[:, :0], r"\[item, feature\] of 80 items, got shape \(80, 0\)"),
    "words": (np.full((N, 3), "a"), "must be numbers"),
    "nan": (with_nan, "nan or inf, first at item 7, feature 2"),
    "inf": (np.where(np.isnan(with_nan), -np.inf, X), "nan or inf, first at item 7, feature 2"),
}
LABELS = {
    "too few": Y[:-1],
    "too many": np.append(Y, 0),
    "none": Y[:0],
    "of one class": np.zeros(N, int),
    "two columns": np.column_stack([Y, Y]),
    "mixed": np.array([None, "a"] * (N // 2), dtype=object),
    "nan": np.where(np.arange(N) == 3, np.nan, Y),
}
GROUPINGS = {
    "too few": GROUPS[:-1],
    "too many": np.append(GROUPS, 0),
    "none": GROUPS[:0],
    "two columns": np.column_stack([GROUPS, GROUPS]),
    "mixed": np.array([None, "a"] * (N // 2), dtype=object),
    "nan": np.where(np.arange(N) < 2, np.nan, GROUPS),
}
every_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)


def refused(fit, X, y, groups, message):
    with pytest.raises(ValueError, match=message) as caught:
        fit(X, y, groups)
    assert "\n" not in str(caught.value)


@every_fit
@pytest.mark.parametrize(("features", "message"), FEATURES.values(), ids=FEATURES)
def test_features_that_are_not_those_of_the_items(fit, features, message):
    refused(fit, features, Y, GROUPS, message)


@every_fit
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_that_are_not_those_of_the_items(fit, labels):
    refused(fit, X, labels, GROUPS, r"\by\b|cannot make folds|among 80|one outcome")


@every_fit
@pytest.mark.parametrize("groups", GROUPINGS.values(), ids=GROUPINGS)
def test_groups_that_are_not_those_of_the_items(fit, groups):
    refused(fit, X, Y, groups, "groups")


def test_nan_of_a_sparse_source_is_named_by_its_item():
    entries = sparse.csr_array(
        np.where(X > 0, with_nan, 0.0) + np.where(np.isnan(with_nan), np.nan, 0)
    )
    with pytest.raises(ValueError, match="first at item 7, feature 2"):
        RidgeSource(entries)


@pytest.mark.parametrize("test", [max_statistic_test, max_class_statistic_test, max_spearman_test])
def test_no_pair_to_score_is_no_small_p_value(test):
    """Where every fold holds one label, nothing was observed; a comparison with nan would call it significant."""
    groups = np.arange(N) // 4
    y = groups % 2
    with pytest.raises(ValueError, match="no fold holds two items of different labels"):
        test(one(X), y, groups, groups)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: nested_ridge_regression(one(X), X[:, 0], GROUPS, n_regroupings=0),
            "at least 1, got 0",
        ),
        (lambda: nested_multinomial(one(X), Y, GROUPS, n_regroupings=0), "at least 1, got 0"),
        (
            lambda: nested_ridge_regression(one(X), X[:, 0], GROUPS, folds=FOLDS + 0.5),
            "folds must be 0, 1, 2",
        ),
        (
            lambda: nested_ridge_regression(one(X), X[:, 0], GROUPS, folds=FOLDS * 2),
            "folds must be 0, 1, 2",
        ),
        (lambda: degeneracy(X, Y, GROUPS, alpha=0.0), "alpha must be positive"),
        (lambda: transfer_matrix(DOMAINS, alpha=[1.0, 2.0]), r"\[regrouping, fold\] \(5, 5\)"),
        (lambda: transfer_matrix(DOMAINS, folds=[FOLDS]), "folds: 1 given for 2 domains"),
        (lambda: transfer_matrix(DOMAINS, n_folds=30), "only 20 groups for 30 folds"),
        (lambda: transfer_matrix(IN_TWO_GROUPS, n_folds=2), "only one group outside fold 0"),
        (
            lambda: sample_efficiency(X, Y, GROUPS, [2.5], folds=FOLDS),
            "sizes must be whole numbers",
        ),
        (
            lambda: sample_efficiency(X, Y, GROUPS, probe="ridge"),
            "probe: 'ridge' is no LinearProbe",
        ),
        (lambda: ridge_directions(X, np.column_stack([Y, 2 * Y])), "labels must be 0 and 1"),
        (lambda: ridge_directions(X, Y[:, None], alpha=-1.0), "alpha must be positive"),
        (lambda: ridge_directions(X[:-1], Y[:, None]), "of 80 items"),
        (lambda: text_bins(X[:, 0], FOLDS), r"must be \[regrouping, item\]"),
        (lambda: text_bins(with_nan.T[2:], FOLDS[None]), "text_scores hold nan"),
        (lambda: max_statistic_test([], Y, GROUPS, FOLDS), "candidates is empty"),
    ],
)
def test_arguments_that_cannot_be(call, message):
    with pytest.raises(ValueError, match=message):
        call()

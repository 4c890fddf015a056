"""Selectivity and text bins: against simulations whose truth is known, and pairs counted one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from probes import (
    auroc_interval,
    control_labels,
    regrouped_folds,
    same_fold_auroc,
    selectivity,
    selectivity_reason,
    text_bins,
)

N_TYPES, N_GROUPS, SIZE = 30, 120, 4


def items(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups of items, a surface type for each, one-hot features of the types."""
    groups = np.repeat(np.arange(N_GROUPS), SIZE)
    types = rng.integers(N_TYPES, size=len(groups))
    return groups, types, np.eye(N_TYPES)[types]


def test_a_probe_that_knows_types_by_heart_has_no_selectivity() -> None:
    rng = np.random.default_rng(0)
    groups, types, one_hot = items(rng)
    y = (rng.random(N_TYPES) < 0.5).astype(int)[types]
    folds = regrouped_folds(y, groups)
    found = selectivity(one_hot, y, types, groups, folds, alpha=1.0)
    assert found.true.estimate > 0.99
    assert found.control.mean() > 0.99
    assert abs(found.difference) < 0.01
    assert (found.n_types, found.n_items) == (N_TYPES, len(y))


def test_a_probe_of_the_outcome_itself_is_selective() -> None:
    rng = np.random.default_rng(1)
    groups, types, _ = items(rng)
    y = rng.integers(2, size=len(groups))
    features = rng.normal(size=(len(y), 40))
    features[:, 0] += 4 * y
    folds = regrouped_folds(y, groups)
    found = selectivity(features, y, types, groups, folds, alpha=0.1)
    assert found.true.estimate > 0.95
    assert abs(found.control.mean() - 0.5) < 0.04
    assert found.difference > 0.4


def test_items_whose_type_is_not_trained_on_go_unscored() -> None:
    """A type in a single group is never on both sides of a split: it changes no score."""
    rng = np.random.default_rng(2)
    groups, types, one_hot = items(rng)
    y = rng.integers(2, size=len(groups))
    features = np.hstack([one_hot, rng.normal(size=(len(y), 5))])
    folds = regrouped_folds(y, groups)
    lonely = np.isin(groups, np.arange(8))
    own_types = np.where(lonely, N_TYPES + groups, types)
    found = selectivity(features, y, own_types, groups, folds, alpha=1.0)
    assert (found.n_types, found.n_items) == (N_TYPES, int((~lonely).sum()))
    scores = np.stack([_ridge_scores(features, y, fold) for fold in folds])
    kept = auroc_interval(
        y[~lonely], scores[:, ~lonely], folds[:, ~lonely], groups[~lonely], estimand="procedure"
    )
    assert found.true.estimate == pytest.approx(kept.estimate, abs=1e-6)


def _ridge_scores(features: np.ndarray, y: np.ndarray, folds: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import StandardScaler

    scores = np.empty(len(y))
    for fold in np.unique(folds):
        train = folds != fold
        scaler = StandardScaler().fit(features[train])
        rows = scaler.transform(features)
        penalty = (rows[train] ** 2).sum() / train.sum()
        scores[~train] = Ridge(alpha=penalty).fit(rows[train], y[train]).predict(rows[~train])
    return scores


def test_types_that_do_not_recur_are_refused_with_the_reason() -> None:
    rng = np.random.default_rng(3)
    groups, _, one_hot = items(rng)
    y = rng.integers(2, size=len(groups))
    folds = regrouped_folds(y, groups)
    assert selectivity_reason(y, groups, folds) == (
        "only 0 surface types occur on both sides of a split; 4 are needed"
    )
    with pytest.raises(ValueError, match="types: only 0 surface types"):
        selectivity(one_hot, y, groups, groups, folds, alpha=1.0)
    with pytest.raises(ValueError, match="n_draws must be at least 5"):
        selectivity(one_hot, y, rng.integers(9, size=len(y)), groups, folds, alpha=1.0, n_draws=4)


def test_a_reason_on_all_regroupings_is_that_of_the_weakest() -> None:
    """Types in two groups each share a fold in some regroupings: what holds for all holds for each alone."""
    groups = np.repeat(np.arange(40), 2)
    types = np.where(groups < 8, groups // 2, 100 + groups)
    y = np.arange(80) % 2
    folds = regrouped_folds(y, groups, n_regroupings=30)
    alone = [selectivity_reason(y, types, fold) for fold in folds]
    assert "only 3 surface types" in " ".join(filter(None, alone))
    assert selectivity_reason(y, types, folds) == next(filter(None, alone))
    recurring = np.where(groups < 16, groups % 8, 100 + groups)
    rare = (groups < 4).astype(int)  # 8 positive items at most
    assert all(
        "items of one outcome have a surface type" in str(selectivity_reason(rare, recurring, fold))
        for fold in folds
        if selectivity_reason(y, recurring, fold) is None
    )
    assert any(selectivity_reason(y, recurring, fold) is None for fold in folds)


@given(arrays(np.int64, st.integers(1, 40), elements=st.integers(0, 12)), st.integers(0, 9))
def test_control_labels_belong_to_types_and_are_balanced(types: np.ndarray, seed: int) -> None:
    labels = control_labels(types, 5, seed)
    for column in labels.T:
        of_type = {t: set(column[types == t].tolist()) for t in set(types.tolist())}
        assert all(len(values) == 1 for values in of_type.values())
        ones = sum(next(iter(values)) for values in of_type.values())
        assert ones == len(of_type) // 2


@given(
    arrays(np.int64, 60, elements=st.integers(0, 3)),
    arrays(np.float64, 60, elements=st.integers(-5, 5).map(float)),
    st.integers(2, 6),
)
def test_bins_lie_in_one_fold_and_follow_the_score(
    folds: np.ndarray, scores: np.ndarray, n_bins: int
) -> None:
    codes = text_bins(scores[None], folds[None], n_bins)[0]
    for code in np.unique(codes):
        assert len(set(folds[codes == code].tolist())) == 1
    for fold in np.unique(folds):
        rows = folds == fold
        assert len(set(codes[rows].tolist())) <= n_bins
        order = np.argsort(scores[rows], kind="stable")
        assert (np.diff(codes[rows][order]) >= 0).all()
        for value in np.unique(scores[rows]):
            assert len(set(codes[rows & (scores == value)].tolist())) == 1


def test_bins_hold_equally_many_items() -> None:
    rng = np.random.default_rng(4)
    codes = text_bins(rng.normal(size=(2, 200)), np.tile(np.arange(4), (2, 50)), n_bins=5)
    assert (np.bincount(codes[0]) == 10).all()


def test_within_bins_only_what_the_text_does_not_say_is_left() -> None:
    rng = np.random.default_rng(5)
    n = 2000
    text, own = rng.normal(size=(2, n))
    y = (text + own + 0.3 * rng.normal(size=n) > 0).astype(int)
    folds = np.arange(n)[None] % 5
    codes = text_bins(text[None], folds, n_bins=20)[0]

    def within(scores: np.ndarray) -> float:
        return float(same_fold_auroc(y, scores, codes))

    assert abs(within(text) - 0.5) < 0.06  # a bin is not infinitely narrow
    assert abs(within(text + rng.normal(size=n)) - 0.5) < 0.04
    assert within(own) > 0.9

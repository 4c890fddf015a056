"""Scores of yes/no predictions: from counts as scikit-learn gives them from items, and what intervals cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    cohen_kappa_score,
    f1_score,
    precision_score,
    recall_score,
)

from experiments.self_execution.majority import majority
from experiments.self_execution.yes_no import UNKNOWN, compare, yes_no_scores
from probes import criterion, d_prime

NAMED = {
    "accuracy": accuracy_score,
    "balanced_accuracy": balanced_accuracy_score,
    "f1": f1_score,
    "kappa": cohen_kappa_score,
    "precision": precision_score,
    "recall": recall_score,
    "d_prime": d_prime,
    "criterion": criterion,
}


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 9)), min_size=12, max_size=60)
)
def test_scores_are_those_of_the_items(rows: list[tuple[bool, bool, int]]) -> None:
    items = [*rows, (True, True, 10), (True, False, 11), (False, True, 12), (False, False, 13)]
    outcome, said, group = np.array(items).T
    scores = yes_no_scores(outcome, said, group.astype(str))
    for name, reference in NAMED.items():
        assert scores[name].estimate == pytest.approx(reference(outcome, said))
        assert not scores[name].low > scores[name].estimate
        assert not scores[name].high < scores[name].estimate


def test_a_constant_has_kappa_0_and_an_oracle_1() -> None:
    outcome = np.array([0, 1, 1, 0, 0, 0] * 10)
    groups = np.repeat(np.arange(20), 3).astype(str)
    found = compare(
        outcome,
        {"self": outcome, "never": np.zeros_like(outcome), "always": outcome * 0 + 1},
        groups,
    )
    for name, kappa in (("self", 1), ("never", 0), ("always", 0)):
        assert found.scores[name]["kappa"].estimate == kappa
        assert found.scores[name]["balanced_accuracy"].estimate == (1 + kappa) / 2
    assert found.self_minus["never"]["kappa"].estimate == 1
    assert found.self_minus["never"]["accuracy"].estimate == pytest.approx(1 / 3)


def test_no_prediction_is_wrong_on_every_item() -> None:
    outcome = np.array([0, 1, 1, 0])
    groups = np.array(list("abcd"))
    found = compare(outcome, {"self": np.array([0, UNKNOWN, 1, UNKNOWN])}, groups)
    assert found.scores["self"]["accuracy"].estimate == 0.5
    assert found.scores["self"]["recall"].estimate == 0.5


def test_intervals_cover_for_items_that_share_groups() -> None:
    rng = np.random.default_rng(3)
    n_groups, n_simulations = 60, 300
    covered = dict.fromkeys(("kappa", "balanced_accuracy", "d_prime", "f1"), 0)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        groups = np.repeat(np.arange(n), 4)
        tendency = rng.normal(size=n)[groups]  # shared within a group, so that its items agree
        outcome = (tendency + rng.normal(size=4 * n) > 0.8).astype(int)
        said = (tendency + 1.5 * rng.normal(size=4 * n) > 0).astype(int)
        return outcome, said, groups.astype(str)

    outcome, said, _ = draw(200_000)
    truth = {name: NAMED[name](outcome, said) for name in covered}
    for _ in range(n_simulations):
        scores = yes_no_scores(*draw(n_groups))
        for name in covered:
            covered[name] += scores[name].low <= truth[name] <= scores[name].high
    for name, n in covered.items():
        assert 0.92 <= n / n_simulations <= 0.98, name


def test_one_class_leaves_what_needs_both_undefined() -> None:
    scores = yes_no_scores(np.zeros(6, int), np.array([0, 1] * 3), np.array(list("abcdef")))
    assert scores["accuracy"].estimate == 0.5
    assert np.isnan(
        [scores[name].estimate for name in ("recall", "balanced_accuracy", "d_prime")]
    ).all()


def test_a_majority_is_more_than_half_of_those_that_say_something() -> None:
    votes = np.array(
        [[1, 1, 0, 1, UNKNOWN], [1, 0, 0, UNKNOWN, UNKNOWN], [0, UNKNOWN, 1, 1, UNKNOWN]]
    )
    assert majority(votes).tolist() == [1, UNKNOWN, 0, 1, UNKNOWN]

"""Cross-fitting, nulls, and the choice of items and donors."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from experiments.causal.directions import (
    difference_of_means,
    fit_directions,
    halves,
    shuffled_labels,
)
from experiments.causal.patching import choose_donors
from experiments.causal.readouts import choose_items, order_of
from experiments.causal.settings import CausalSettings
from experiments.causal.subject import Place, Subject, place_of
from probes import RidgeProbe, whole_group_permutations

RNG = np.random.default_rng(3)
N, D = 80, 12
GROUPS = np.array([f"g{i // 2}" for i in range(N)])
OUTCOME = np.array([0, 1] * (N // 2))
FEATURES = RNG.standard_normal((N, D)) + 3 * OUTCOME[:, None] * np.eye(D)[0]
SETTINGS = CausalSettings()


def subject(outcome: np.ndarray = OUTCOME) -> Subject:
    """With no more than what directions and choices look at."""
    made = Subject.__new__(Subject)
    for name, value in {
        "features": FEATURES,
        "outcome": outcome,
        "groups": GROUPS,
        "alpha": 0.5,
        "items": tuple(range(N)),
        "place": Place("resid_post", 1, "prompt_last", 1),
    }.items():
        object.__setattr__(made, name, value)
    return made


def test_directions_are_those_of_probes_fitted_on_the_other_half() -> None:
    found = fit_directions(subject(), SETTINGS)
    for half in (0, 1):
        others = found.half_of != half
        assert not set(GROUPS[others]) & set(GROUPS[~others])
        rows, labels = FEATURES[others], OUTCOME[others]
        probe = RidgeProbe(alpha=0.5).fit(rows, labels).direction_
        means = rows[labels == 1].mean(axis=0) - rows[labels == 0].mean(axis=0)
        for row, wanted in enumerate((probe, means)):
            np.testing.assert_allclose(
                found.vectors[half, row], wanted / np.linalg.norm(wanted), atol=1e-8
            )
    assert (found.vectors[:, :2, 0] > 0).all()  # toward outcome 1


def test_no_direction_has_seen_the_label_of_an_item_that_it_moves() -> None:
    before = fit_directions(subject(), SETTINGS)
    first = before.half_of == 0
    swapped = OUTCOME.copy()
    for group in sorted(set(GROUPS[first]))[::2]:
        swapped[group == GROUPS] = 1 - swapped[group == GROUPS]
    after = fit_directions(subject(swapped), SETTINGS)
    assert (after.half_of == before.half_of).all()
    np.testing.assert_array_equal(after.vectors[0, :2], before.vectors[0, :2])
    assert not np.allclose(after.vectors[1, 0], before.vectors[1, 0])


def test_nulls_are_as_long_as_the_directions_and_as_many_as_asked_for() -> None:
    found = fit_directions(subject(), SETTINGS)
    counts = Counter(found.kinds)
    assert counts == {
        "probe": 1,
        "diff_means": 1,
        "random probe": 100,
        "random diff_means": 100,
        "shuffled probe": 99,
        "shuffled diff_means": 99,
    }
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=-1), 1)
    centered = FEATURES - FEATURES.mean(axis=0)
    assert found.unit == pytest.approx(np.sqrt((centered**2).sum(axis=1).mean()))


def test_labels_are_shuffled_where_all_groups_hold_the_same_in_the_same_order() -> None:
    """An exchange of whole groups alone would give the labels back."""
    shuffled = shuffled_labels(OUTCOME, GROUPS, 50, seed=0)
    alike = (shuffled == OUTCOME[:, None]).mean(axis=0)
    assert abs(alike.mean() - 0.5) < 0.05
    of_groups = np.array([shuffled[group == GROUPS].sum(axis=0) for group in dict.fromkeys(GROUPS)])
    assert (of_groups == 1).all()


def test_labels_of_one_kind_a_group_stay_so() -> None:
    constant = np.repeat(RNG.integers(0, 2, N // 2), 2)
    shuffled = shuffled_labels(constant, GROUPS, 20, seed=0)
    assert (shuffled[::2] == shuffled[1::2]).all()


def test_shuffles_that_leave_a_single_label_are_drawn_anew() -> None:
    """A group of one item takes one label of the large group; what is left is then often all of one kind."""
    groups, labels = np.array(["large"] * 6 + ["b", "c"]), np.array([1, 0, 0, 0, 0, 0, 0, 0])
    exchanged = whole_group_permutations(labels, groups, 200, seed=0)
    assert 0.2 < (np.ptp(exchanged, axis=0) == 0).mean() < 0.8
    shuffled = shuffled_labels(labels, groups, 60, seed=0)
    assert shuffled.shape == (8, 60)
    assert (np.ptp(shuffled, axis=0) == 1).all()


def test_halves_that_lack_an_outcome_ask_for_more_groups() -> None:
    lumped = np.where(np.arange(N) < 20, "lump", GROUPS)
    of_lump = (lumped == "lump").astype(int)
    wanted = r"outcome 1 are in one half \(groups that hold it: 1\); .*collect more items, in more groups"
    with pytest.raises(ValueError, match=wanted):
        halves(of_lump, lumped, seed=0)
    with pytest.raises(ValueError, match=r"only 3 .*; collect more items, in more groups"):
        halves((np.arange(N) < 3).astype(int), GROUPS, seed=0)


def test_differences_of_means_of_many_columns() -> None:
    labels = RNG.integers(0, 2, (N, 5))
    found = difference_of_means(FEATURES, labels)
    for column in range(5):
        ones = labels[:, column] == 1
        wanted = FEATURES[ones].mean(axis=0) - FEATURES[~ones].mean(axis=0)
        np.testing.assert_allclose(found[column], wanted)


def test_any_first_items_are_balanced_and_orders_alternate_within_them() -> None:
    half_of = fit_directions(subject(), SETTINGS).half_of
    chosen = np.array(choose_items(subject(), half_of, 48, seed=0))
    assert len(set(chosen.tolist())) == len(chosen)
    for n in (16, 32):
        cells = Counter(zip(half_of[chosen[:n]], OUTCOME[chosen[:n]], strict=True))
        assert set(cells.values()) == {n // 4}
    orders = Counter(zip(order_of(32), OUTCOME[chosen[:32]], strict=True))
    assert set(orders.values()) == {8}
    assert len(set(GROUPS[chosen[:16]])) == 16


def test_donors_have_the_outcome_that_they_are_asked_for_and_another_group() -> None:
    order = order_of(N)
    donors = choose_donors(OUTCOME, GROUPS, order, 20, seed=0)
    rows = np.array(donors.recipients)
    assert len(rows) == 20
    for kind, differs in (("opposite", 1), ("same", 0)):
        of = np.array(donors.of_kind[kind])
        assert (np.abs(OUTCOME[of] - OUTCOME[rows]) == differs).all()
    for of in donors.of_kind.values():
        assert (GROUPS[list(of)] != GROUPS[rows]).all()
        assert (order[list(of)] == order[rows]).all()


def test_a_place_that_cannot_be_changed_is_named() -> None:
    probe = {"site": "resid_post", "layer": 4, "position": "mean_instruction"}
    assert place_of(probe, SETTINGS, 6).start == "instruction_last"
    assert place_of(probe | {"site": "resid_pre"}, SETTINGS, 6).block == 3
    with pytest.raises(ValueError, match="layer: 6 does not exist at resid_post; give one from 0"):
        place_of(probe, replace(SETTINGS, layer=6), 6)
    with pytest.raises(ValueError, match="layer: 0 does not exist at resid_pre; give one from 1"):
        place_of(probe | {"site": "resid_pre"}, replace(SETTINGS, layer=0), 6)
    with pytest.raises(ValueError, match="site: the probe of this run reads mlp_out"):
        place_of(probe | {"site": "mlp_out"}, SETTINGS, 6)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"n_null": 19}, "n_null: 19 is too few"),
        ({"n_items": 3}, "n_items: 3 is too few"),
        ({"kl_bound": 0}, "kl_bound: 0 must be over 0"),
        ({"perplexity_bound": 1}, "perplexity_bound: 1 must be over 1"),
    ],
)
def test_settings_that_make_no_sense_are_named(bad: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CausalSettings(**bad)

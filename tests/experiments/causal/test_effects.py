"""Effects against direct computations, and the three-valued answer at its edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from experiments.causal.effects import (
    Effect,
    add_one_p,
    against_nulls,
    class_gap,
    correlation,
    effect_of,
    moved,
    ratio,
)

RNG = np.random.default_rng(0)


def test_with_an_item_a_group_the_interval_is_students() -> None:
    values = RNG.normal(3, 40, 25)
    found = effect_of(values, np.arange(25))
    low, high = stats.t.interval(0.95, 24, values.mean(), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_copies_of_an_item_add_no_certainty() -> None:
    values, groups = RNG.normal(size=20), np.arange(20)
    once, thrice = effect_of(values, groups), effect_of(np.tile(values, 3), np.tile(groups, 3))
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))


def test_the_p_value_counts_the_effect_itself() -> None:
    null = np.array([0.5, -2.0, 1.0, -0.1])
    assert add_one_p(1.5, null) == 2 / 5
    assert add_one_p(-3.0, null) == 1 / 5
    assert add_one_p(0.0, null) == 1


def test_p_values_are_uniform_when_the_direction_is_one_of_the_nulls() -> None:
    drawn = RNG.normal(size=(4000, 40))
    p = np.array([add_one_p(row[0], row[1:]) for row in drawn])
    assert (p <= 0.05).mean() == pytest.approx(0.05, abs=0.012)
    assert (p <= 0.5).mean() == pytest.approx(0.5, abs=0.025)


def test_the_gap_between_outcomes_is_welchs_on_single_items() -> None:
    outcome = np.array([1] * 12 + [0] * 30)
    values = np.where(outcome == 1, RNG.normal(2, 3, 42), RNG.normal(0, 1, 42))
    found = class_gap(values, outcome, np.arange(42))
    ones, zeros = values[outcome == 1], values[outcome == 0]
    assert found.estimate == pytest.approx(ones.mean() - zeros.mean())
    error = np.sqrt(ones.var() / 12 + zeros.var() / 30)
    assert (found.high - found.low) / 2 == pytest.approx(
        stats.t.ppf(0.975, 41) * error * np.sqrt(42 / 41)
    )


def test_a_ratio_is_the_slope_through_the_origin() -> None:
    way = RNG.normal(0, 2, 30)
    movement = 0.4 * way + RNG.normal(0, 0.1, 30)
    found = ratio(movement * way, way**2, np.arange(30))
    slope = np.linalg.lstsq(way[:, None], movement, rcond=None)[0][0]
    assert found.estimate == pytest.approx(slope)
    assert found.low < 0.4 < found.high
    assert found.high - found.low < 0.1
    assert np.isnan(ratio(way * 0, way * 0, np.arange(30)).estimate)


def test_the_correlation_of_a_constant_is_not_a_number() -> None:
    a = RNG.normal(size=40)
    one, groups = np.zeros(40, dtype=int), np.arange(40)
    found = correlation(a, a + RNG.normal(0, 0.5, 40), groups, one, seed=0)
    b = a**3 - 7
    assert correlation(a, b, groups, one, seed=0).estimate == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert 0.6 < found.low < found.estimate < found.high < 1
    assert np.isnan(correlation(a, np.ones(40), groups, one, seed=0).estimate)


def test_halves_that_move_unequally_far_do_not_make_a_correlation() -> None:
    """Each half is moved along a direction of its own: over all items, movements of nothing in common go together."""
    half, groups = np.arange(80) % 2, np.arange(80)
    a, b = RNG.normal(size=(2, 80)) + 3 * half
    assert np.corrcoef(a, b)[0, 1] > 0.5
    found = correlation(a, b, groups, half, seed=0)
    assert found.low < 0 < found.high
    own = [np.corrcoef(a[half == one], b[half == one])[0, 1] for one in (0, 1)]
    assert found.estimate == pytest.approx(np.mean(own))


def test_intervals_of_correlations_cover_nothing_in_common() -> None:
    """Also with pairs of near-copies, and scales that differ between the halves."""
    half = np.repeat([0, 1], 20)
    groups = np.arange(40) // 2
    missed = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        a, b = np.repeat(rng.normal(size=(2, 20)), 2, axis=1) + rng.normal(0, 0.3, (2, 40))
        found = correlation(a * (1 + 4 * half) + half, b - 2 * half, groups, half, seed)
        missed += found.low > 0
    assert missed / 300 < 0.06


def effect(estimate: float, half: float, **more: float) -> Effect:
    return Effect(estimate, estimate - half, estimate + half, 40, 40, **more)


def test_whether_it_moves_is_three_valued() -> None:
    beats = {"p": 0.005, "p_random": 0.01, "p_shuffled": 0.01, "random_level": 0.3}
    assert moved(effect(2, 0.5, **beats), spread=1) == "moves"
    assert moved(effect(-2, 0.5, **beats), spread=1) == "moves"
    assert moved(effect(2, 2.5, **beats), spread=1) == "undecided"
    assert moved(effect(0.05, 0.1, **beats), spread=1) == "does not move"
    for name in ("p", "p_random", "p_shuffled"):
        assert moved(effect(2, 0.5, **beats | {name: 0.06}), spread=1) == "undecided"
    # An interval that random directions reach beyond is no "no" unless it is small against the spread.
    assert moved(effect(0.1, 0.15, **beats), spread=0.5) == "undecided"
    assert moved(effect(0.1, 0.15, **beats | {"p": 0.5}), spread=0.5) == "undecided"
    assert moved(effect(0.1, 0.15, **beats | {"p": 0.5}), spread=1) == "does not move"
    # A movement that beats all nulls and is decidedly small is none.
    assert moved(effect(0.2, 0.03, **beats | {"random_level": 0.0}), spread=1) == "does not move"
    assert moved(effect(0.0, 0.0), spread=0) == "does not move"


def test_null_effects_are_counted_by_kind_and_together() -> None:
    found = against_nulls(
        effect(1.0, 0.1), 1.1, random=np.array([0.5, 1.2]), shuffled=np.array([-2.0, 0.1, 0.2])
    )
    assert (found.p, found.p_random, found.p_shuffled) == (3 / 6, 2 / 3, 2 / 4)
    assert found.n_null == 5
    assert found.random_level == pytest.approx(np.quantile([0.5, 1.2], 0.95))
    assert replace(found, p=None).to_json().keys() >= {"estimate", "ci", "n", "n_null"}

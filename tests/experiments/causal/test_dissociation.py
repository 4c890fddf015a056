"""The table of patterns, on movements that are made up, one for each pattern."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.causal.directions import RANDOM, SHUFFLED, Directions
from experiments.causal.dissociation import dissociation
from experiments.causal.measured import TEST, Movements
from experiments.causal.readouts import order_of
from experiments.causal.sweep import RELATIVE_DOSES, Sweep
from experiments.causal_record import READOUTS

N, N_NULL_ITEMS, N_NULL = 40, 16, 120


def movements(
    moves: dict[str, float], *, together: bool = True, noise: float = 0.3, gap: float = 1.5
) -> Movements:
    """Along both directions every readout moves by so many nats; `together`, item by item alike. Unchanged, the
    behavior's log-odds of the two outcomes are `gap` apart."""
    rng = np.random.default_rng(0)
    n_directions = 2 + N_NULL
    common = rng.normal(0, 0.5, (N, 1))
    steered = {}
    for name in READOUTS:
        values = rng.normal(0, 0.4, (N, n_directions, len(RELATIVE_DOSES)))
        values[:, 2:] = values[:, 2:].mean(axis=0) + rng.normal(0, 0.2, (n_directions - 2, 1))
        own = common if together else rng.normal(0, 0.5, (N, 1))
        size = moves.get(name, 0.0)
        values[:, :2, TEST] = size * (1 + own) + rng.normal(0, noise, (N, 2))
        values[N_NULL_ITEMS:, 2:] = np.nan
        steered[name] = values
    outcome = np.arange(N) // 2 % 2
    base = {name: rng.normal(0, 1, N) for name in READOUTS}
    base["behavior"] += gap * outcome
    steered = {name: values + base[name][:, None, None] for name, values in steered.items()}
    directions = Directions(
        (
            *("probe", "diff_means"),
            *[kind for kind in (*RANDOM.values(), *SHUFFLED.values()) for _ in range(N_NULL // 4)],
        ),
        np.ones((2, n_directions, 3)),
        np.arange(N) % 2,
        1.0,
    )
    sweep = Sweep(tuple(range(N)), N_NULL_ITEMS, RELATIVE_DOSES, base, steered, {})
    return Movements(sweep, directions, outcome, np.arange(N))


@pytest.mark.parametrize(
    ("moves", "pattern"),
    [
        ({"behavior": 3, "self_report": 2}, "tracks"),
        ({"behavior": -3, "self_report": -2}, "tracks"),
        (dict.fromkeys(READOUTS, 2.0), "input moved"),
        ({"self_report": 2}, "report only"),
        ({"behavior": 3}, "behavior only"),
        ({}, "none"),
        ({"behavior": 3, "self_report": -2}, "undecided"),
        ({"behavior": 3, "self_report": 2, "other_report": 2}, "undecided"),
    ],
)
def test_every_pattern(moves: dict[str, float], pattern: str) -> None:
    table = dissociation(movements(moves), True, seed=0)
    assert table["pattern"] == pattern
    assert table["diff_means"]["pattern"] == pattern
    assert table["sentence"].startswith("Undecided: ") is (pattern == "undecided")


def test_moving_alike_on_average_is_not_tracking() -> None:
    found = dissociation(movements({"behavior": 3, "self_report": 2}, together=False), True, seed=0)
    assert found["pattern"] == "undecided"
    assert "not item by item" in found["sentence"]


def test_beyond_the_guards_nothing_is_interpreted() -> None:
    found = dissociation(movements({"behavior": 3, "self_report": 2}), False, seed=0)
    assert found["pattern"] == "undecided"
    assert "beyond the guards" in found["sentence"]


def test_a_behavior_without_readout_leaves_the_pattern_open() -> None:
    made = movements({"self_report": 2})
    for part in (made.sweep.base, made.sweep.steered):
        del part["behavior"]  # type: ignore[attr-defined]
    found = dissociation(made, True, seed=0)
    assert found["pattern"] == "undecided"
    assert found["item_by_item"] is None
    assert "behavior" not in found["rows"]


def test_halves_that_move_unequally_far_are_not_moving_item_by_item() -> None:
    """Either half has a direction of its own, which may reach farther in all that is read."""
    made = movements({"behavior": 3, "self_report": 2}, together=False)
    factor = 1 + 2 * made.half
    for name in ("behavior", "self_report"):
        base, steered = made.sweep.base[name], made.sweep.steered[name]
        steered[:, :2, TEST] = (
            base[:, None] + (steered[:, :2, TEST] - base[:, None]) * factor[:, None]
        )
    values = [made.at_test_dose(name, 0) for name in ("behavior", "self_report")]
    assert np.corrcoef(values)[0, 1] > 0.4
    found = dissociation(made, True, seed=0)
    assert found["pattern"] == "undecided"
    assert "not item by item" in found["sentence"]


def test_log_odds_that_do_not_tell_the_outcomes_apart_are_not_the_behavior() -> None:
    made = movements({"behavior": 3, "self_report": 2}, gap=0)
    found = dissociation(made, True, seed=0)
    assert found["rows"]["behavior"]["p"] < 0.05
    assert found["rows"]["behavior"]["moved"] == "undecided"
    assert found["rows"]["self_report"]["moved"] == "moves"
    assert found["pattern"] == "undecided"
    assert "does not tell its outcomes apart" in found["sentence"]


def test_a_liking_for_a_place_of_the_options_makes_no_movement_small() -> None:
    """It sets items apart that are asked in different orders, and says nothing of them."""
    made = movements({"behavior": 3, "self_report": 1})
    before = made.spread("self_report"), made.spread("behavior")
    for name in ("self_report", "behavior"):
        added = 20.0 * order_of(N)
        made.sweep.base[name][:] += added
        made.sweep.steered[name][:] += added[:, None, None]
    assert made.spread("self_report") == pytest.approx(before[0])
    assert made.spread("behavior") > 5 * before[1]
    assert made.moved("self_report", made.effect("self_report", 0)) == "moves"

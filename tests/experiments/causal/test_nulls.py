"""How often an effect of nothing is called one: the whole way from states to p-values, with a readout that is known.

States have a direction of the outcome, and the readout is a linear function of the state, with a gradient of its own at
every item. Where that gradient has nothing to do with the outcome's direction, p-values under 0.05 are errors.
"""

from __future__ import annotations

import numpy as np
import pytest

from experiments.causal.directions import (
    FITTED,
    RANDOM,
    SHUFFLED,
    Directions,
    as_alike,
    fit_directions,
)
from experiments.causal.effects import Effect
from experiments.causal.measured import Movements
from experiments.causal.readouts import choose_items
from experiments.causal.settings import CausalSettings
from experiments.causal.subject import Place, Subject
from experiments.causal.sweep import RELATIVE_DOSES, Sweep

N_GROUPS, D = 40, 12
GAP = 1.8
"""Fits of both halves then have cosines of 0.6 to 0.9."""
P_VALUES = ("p", "p_random", "p_shuffled")


def subject(gap: float, rng: np.random.Generator) -> tuple[Subject, np.ndarray]:
    """Pairs of items, and the direction along which their states differ by `gap` between outcomes.

    The variance along it is 1, as along any other: were it a main axis of the states, directions of any labels would
    lean toward it, and the test against them would be strict.
    """
    outcome = rng.permutation(np.repeat([0, 1], N_GROUPS))
    planted = rng.standard_normal(D)
    planted /= np.linalg.norm(planted)
    states = rng.standard_normal((2 * N_GROUPS, D))
    along = np.sqrt(1 - gap**2 / 4) * (states @ planted) + gap * (outcome - 0.5)
    states += (along - states @ planted)[:, None] * planted
    made = Subject.__new__(Subject)
    for name, value in {
        "features": states,
        "outcome": outcome,
        "groups": np.array([f"g{i // 2}" for i in range(2 * N_GROUPS)]),
        "alpha": 1.0,
        "items": tuple(range(2 * N_GROUPS)),
        "place": Place("resid_post", 1, "prompt_last", 1),
    }.items():
        object.__setattr__(made, name, value)
    return made, planted


def effects(
    made: Subject, directions: Directions, gradient: np.ndarray, rng: np.random.Generator
) -> list[Effect]:
    """Of the probe and of the difference of means, on a readout that has this gradient on average over items."""
    settings = CausalSettings()
    chosen = choose_items(made, directions.half_of, settings.n_items, 0)
    half = directions.half_of[chosen]
    gradients = gradient + 0.5 * rng.standard_normal((len(chosen), D)) / np.sqrt(D)
    movement = np.einsum("nd,nkd->nk", gradients, directions.vectors[half])
    steered = movement[..., None] * np.array(RELATIVE_DOSES)
    sweep = Sweep(
        tuple(chosen),
        settings.n_null_items,
        RELATIVE_DOSES,
        {"report": np.zeros(len(chosen))},
        {"report": steered},
        {},
    )
    movements = Movements(sweep, directions, made.outcome[chosen], made.groups[chosen])
    return [movements.effect("report", row) for row in (0, 1)]


def rates(n: int, gap: float, share: float, n_null: int) -> dict[str, list[float]]:
    """How often each p-value of both directions is at most 0.05; `share` of the gradient is the outcome's direction."""
    rng = np.random.default_rng(1)
    found = []
    for number in range(n):
        made, planted = subject(gap, rng)
        other = rng.standard_normal(D)
        gradient = share * planted + np.sqrt(1 - share**2) * other / np.linalg.norm(other)
        directions = fit_directions(made, CausalSettings(seed=number, n_null=n_null))
        found.append(effects(made, directions, gradient, rng))
    return {
        name: [float(np.mean([getattr(one[row], name) <= 0.05 for one in found])) for row in (0, 1)]
        for name in P_VALUES
    }


def check_nominal(found: dict[str, list[float]], n: int, n_null: int) -> None:
    """Within three standard errors of the share that so many nulls can give."""
    n_of = {"p": n_null, "p_random": n_null - n_null // 2, "p_shuffled": n_null // 2}
    for name, n_nulls in n_of.items():
        nominal = np.floor(0.05 * (n_nulls + 1)) / (n_nulls + 1)
        error = np.sqrt(nominal * (1 - nominal) / n)
        assert found[name] == pytest.approx([nominal, nominal], abs=3 * error), (name, found)


def test_few_errors_where_the_halves_agree_on_a_direction_that_is_not_read() -> None:
    """With a null drawn by itself for either half, one in eight."""
    check_nominal(rates(300, GAP, share=0, n_null=40), 300, 40)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0, 1, GAP])
def test_errors_are_nominal_however_well_the_outcome_can_be_told(gap: float) -> None:
    check_nominal(rates(1000, gap, share=0, n_null=199), 1000, 199)


def test_an_effect_of_the_outcomes_direction_is_seen() -> None:
    found = rates(40, GAP, share=0.8, n_null=199)
    for name in P_VALUES:
        assert min(found[name]) > 0.8


def test_pairs_are_as_alike_as_asked_for_and_no_half_is_favored() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 500, D))
    for cosine in (-1.0, -0.3, 0.0, 0.9, 1.0):
        own, other = as_alike(first, second, cosine)
        np.testing.assert_allclose(np.linalg.norm([own, other], axis=-1), 1)
        np.testing.assert_allclose((own * other).sum(axis=1), cosine, atol=1e-12)
        swapped = as_alike(second, first, cosine)
        np.testing.assert_allclose(swapped[::-1], [own, other], atol=1e-12)
        # Still in the plane of the two, and nearer to its own.
        planes = np.stack([first, second, own, other], axis=1)
        assert np.linalg.svd(planes, compute_uv=False)[:, 2].max() < 1e-9
        assert (((own - other) * (first - second)).sum(axis=1) > -1e-9).all()
    same = as_alike(first, first, 0.5)
    np.testing.assert_allclose(np.linalg.norm(same, axis=-1), 1)


def test_nulls_are_as_alike_over_halves_as_the_fits_they_are_held_against() -> None:
    made, _ = subject(GAP, np.random.default_rng(0))
    found = fit_directions(made, CausalSettings())
    cosines = (found.vectors[0] * found.vectors[1]).sum(axis=1)
    for row, name in enumerate(FITTED):
        nulls = found.of_kind(RANDOM[name]) + found.of_kind(SHUFFLED[name])
        assert len(nulls) == 199
        np.testing.assert_allclose(cosines[nulls], cosines[row])
    assert (cosines[:2] > 0.5).all()
    assert cosines[0] != cosines[1]

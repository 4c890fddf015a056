"""Half-rise layers of made-up curves, and the interval of a race whose truth is known."""

import numpy as np
import pytest

from probes import bootstrapped_curves, departures, race, same_fold_auroc
from probes.race import BootstrappedCurve, half_rises
from probes.simulation import RisingCurves, rising_curves

N_LAYERS = 10


def simulated(seed: int, n_groups: int, rises: tuple[int, int]) -> RisingCurves:
    groups = np.repeat(np.arange(n_groups), 3)
    return rising_curves(np.random.default_rng(seed), groups, n_layers=N_LAYERS, rises=rises)


def steady(*aurocs: float) -> BootstrappedCurve:
    """A curve that is known to within a thousandth."""
    wiggle = 0.001 * np.random.default_rng(0).normal(size=(200, len(aurocs)))
    return BootstrappedCurve(np.array(aurocs), np.array(aurocs) + wiggle)


def test_half_of_the_largest_lead_over_the_first_layer() -> None:
    assert steady(0.6, 0.62, 0.71, 0.75, 0.8, 0.7).half_rise == 2
    assert steady(0.6, 0.69, 0.6, 0.75, 0.8).half_rise == 3  # half of 0.2 is 0.1
    assert steady(0.6, 0.7005, 0.6, 0.75, 0.8).half_rise == 1  # the first, also where it falls back


def test_a_lead_counts_from_chance_where_the_first_layer_is_below_it() -> None:
    inverted = steady(0.3, 0.4, 0.5, 0.5, 0.49)
    assert inverted.baseline == 0.5
    assert not steady(0.3, 0.4, 0.49, 0.49, 0.49).rises
    assert steady(0.3, 0.5, 0.56, 0.6).half_rise == 2


def test_a_curve_of_noise_does_not_rise() -> None:
    """The largest of all leads is judged, so that a curve of noise rises in about one of twenty cases."""
    rng = np.random.default_rng(0)
    rises = []
    for _ in range(200):
        noise = 0.04 * rng.normal(size=(301, N_LAYERS))
        auroc = 0.6 + noise[0]
        rises.append(BootstrappedCurve(auroc, auroc + noise[1:]).rises)
    assert np.mean(rises) < 0.1


def test_the_difference_is_in_layers_of_the_model() -> None:
    early, late = steady(0.5, 0.8, 0.8, 0.8), steady(0.5, 0.5, 0.5, 0.8)
    found = race(early, late)
    assert (found.difference, found.low, found.high) == (2, 2, 2)
    assert race(early, late, [0, 10, 20, 29]).difference == 19
    assert race(late, early).difference == -2
    flat = race(early, steady(0.5, 0.5, 0.5, 0.5))
    assert (flat.difference, flat.low, flat.high) == (None, None, None)


def test_departures_are_for_good() -> None:
    upstream = np.array([0.5, 0.7, 0.8, 0.8, 0.6])
    assert departures(upstream, np.array([0.5, 0.5, 0.8, 0.6, 0.6]), 0.1) == 3
    assert departures(upstream, np.array([0.5, 0.5, 0.5, 0.5, 0.5]), 0.1) == 1
    # Before the half-rise there is nothing to lose, and no curve shows less than chance.
    noisy = np.array([0.5, 0.61, 0.55, 0.8, 0.8])
    assert departures(noisy, np.array([0.5, 0.49, 0.4, 0.5, 0.3]), 0.1) == 3
    assert departures(np.array([0.55, 0.54, 0.55]), np.array([0.5, 0.4, 0.3]), 0.1) == 3
    # What was reached at layer 2 still counts at the last.
    assert departures(upstream, np.array([0.5, 0.7, 0.8, 0.8, 0.6]), 0.1) == 4
    assert departures(upstream, np.array([0.5, 0.6, 0.6, 0.6, 0.75]), 0.1) == 5


@pytest.fixture(scope="module")
def scored() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 3)
    y = rng.integers(2, size=90)
    folds = np.stack([rng.permutation(np.repeat(np.arange(3), 10))[groups] for _ in range(2)])
    scores = rng.normal(size=(2, 4, 2, 90)) + 0.5 * y
    return y, scores, folds, groups


def test_curves_are_same_fold_aurocs(scored: tuple[np.ndarray, ...]) -> None:
    y, scores, folds, groups = scored
    for curve, found in zip(scores, bootstrapped_curves(y, scores, folds, groups), strict=True):
        expected = np.mean(
            [same_fold_auroc(y, curve[:, r].T, fold) for r, fold in enumerate(folds)], axis=0
        )
        np.testing.assert_allclose(found.auroc, expected, atol=1e-5)


def test_a_resample_counts_a_group_as_often_as_it_was_drawn(
    scored: tuple[np.ndarray, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    y, scores, folds, groups = scored
    drawn = np.random.default_rng(7).multinomial(30, np.full(30, 1 / 30), size=5)
    found = bootstrapped_curves(y, scores, folds, groups, n_resamples=5, seed=7)[1]
    for times, resampled in zip(drawn, found.resampled, strict=True):
        rows = np.concatenate(
            [np.flatnonzero(groups == g) for g in np.repeat(np.arange(30), times)]
        )
        expected = np.mean(
            [
                same_fold_auroc(y[rows], scores[1, :, r, rows], fold[rows])
                for r, fold in enumerate(folds)
            ],
            axis=0,
        )
        np.testing.assert_allclose(resampled, expected, atol=1e-5)


def test_no_pair_to_compare_is_named() -> None:
    with pytest.raises(ValueError, match="no fold holds both classes"):
        bootstrapped_curves([0, 0, 1, 1], np.zeros((1, 2, 1, 4)), [0, 0, 1, 1], list("abcd"))


def test_the_interval_of_a_race_holds_the_truth() -> None:
    """Curves whose half-rise layers are known; the long form is `python -m benchmarks.race`."""
    rises, n_sims, truth = (2, 6), 60, 4
    covered, zero = 0, 0
    for seed in range(n_sims):
        data = simulated(seed, 100, rises)
        curves = bootstrapped_curves(
            data.y,
            data.scores[:, :, None],
            np.zeros((1, len(data.y)), int),
            data.groups,
            n_resamples=200,
        )
        found = race(*curves)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth <= found.high
        zero += found.low <= 0 <= found.high
    assert covered >= 0.9 * n_sims
    assert zero < 0.2 * n_sims


def test_the_simulated_truth_is_the_truth() -> None:
    """With very many items the curves rise where the simulation says."""
    data = simulated(0, 6000, (2, 6))
    curves = np.stack(
        [same_fold_auroc(data.y, one.T, np.zeros(len(data.y))) for one in data.scores]
    )
    assert half_rises(curves).tolist() == [2, 6]

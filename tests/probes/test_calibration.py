from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit

from probes import (
    expected_calibration_error,
    isotonic,
    log_loss,
    platt,
    same_fold_auroc,
    temperature,
)

CALIBRATIONS = [platt, isotonic, temperature]


def test_platt_calibrates_without_reordering_a_fold():
    rng = np.random.default_rng(0)
    y, folds = rng.integers(0, 2, 2000), np.arange(2000) % 5
    scores = 40 * (rng.normal(size=2000) + 1.5 * y) + 1000 * folds
    probabilities = platt(y, scores, folds)
    assert expected_calibration_error(y, probabilities) < 0.05
    expected = same_fold_auroc(y, scores, folds)
    assert same_fold_auroc(y, probabilities, folds) == pytest.approx(expected)


@pytest.mark.parametrize("calibrate", [platt, isotonic])
def test_useless_scores_give_the_base_rate(calibrate):
    rng = np.random.default_rng(0)
    y, folds = (rng.random(3000) < 0.2).astype(int), np.arange(3000) % 5
    probabilities = calibrate(y, rng.normal(size=3000), folds)
    close = np.abs(probabilities - y.mean()) < 0.12
    assert close.mean() > 0.97


def test_isotonic_bends_where_a_logistic_curve_cannot():
    """Labels are certain in the upper half and a coin elsewhere: no logistic curve has that knee."""
    rng = np.random.default_rng(0)
    scores, folds = rng.normal(size=5000), np.arange(5000) % 5
    y = (rng.random(5000) < np.where(scores > 0, 0.95, 0.3)).astype(int)
    bent, logistic = isotonic(y, scores, folds), platt(y, scores, folds)
    assert expected_calibration_error(y, bent) < 0.03
    assert log_loss(y, np.clip(bent, 1e-6, 1 - 1e-6)) < log_loss(y, logistic) - 0.01
    order = np.argsort(scores[folds == 0])
    assert (np.diff(bent[folds == 0][order]) >= 0).all()


def test_temperature_undoes_overconfidence_and_keeps_the_sides():
    rng = np.random.default_rng(0)
    honest, folds = rng.normal(size=4000) * 1.5, np.arange(4000) % 5
    y = (rng.random(4000) < expit(honest)).astype(int)
    probabilities = temperature(y, 8 * honest, folds)
    np.testing.assert_allclose(probabilities, expit(honest), atol=0.03)
    assert ((probabilities > 0.5) == (honest > 0)).all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_temperature_is_the_likeliest_on_the_other_folds_at_any_scale(scale):
    rng = np.random.default_rng(1)
    y, folds = rng.integers(0, 2, 600), np.arange(600) % 3
    log_odds = rng.normal(size=600) + y - 0.3
    probabilities = temperature(y, scale * log_odds, folds)
    train = folds != 0
    best = minimize_scalar(
        lambda slope: log_loss(y[train], expit(slope * log_odds[train])), bounds=(0.01, 10)
    ).x
    np.testing.assert_allclose(probabilities[~train], expit(best * log_odds[~train]), atol=2e-3)


def test_temperature_never_turns_log_odds_round():
    rng = np.random.default_rng(0)
    y, folds = rng.integers(0, 2, 500), np.arange(500) % 5
    np.testing.assert_allclose(temperature(y, 3 * (0.5 - y), folds), 0.5)


@pytest.mark.parametrize("calibrate", CALIBRATIONS)
def test_no_item_is_calibrated_by_its_own_label(calibrate):
    rng = np.random.default_rng(0)
    y, folds = np.arange(200) % 2, np.arange(200) // 40
    scores = rng.normal(size=200) + y
    flipped = np.where(folds == 2, 1 - y, y)
    before, after = calibrate(y, scores, folds), calibrate(flipped, scores, folds)
    np.testing.assert_array_equal(before[folds == 2], after[folds == 2])
    assert (before[folds != 2] != after[folds != 2]).any()


@pytest.mark.parametrize("calibrate", CALIBRATIONS)
def test_what_cannot_be_calibrated_is_refused(calibrate):
    with pytest.raises(ValueError, match="one class only outside fold 1"):
        calibrate([0, 0, 0, 1], [1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="nan"):
        calibrate([0, 1, 0, 1], [1.0, np.nan, 3.0, 4.0], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="shape"):
        calibrate([0, 1, 0], [1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1])

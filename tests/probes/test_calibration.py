from __future__ import annotations

import numpy as np
import pytest

from probes import expected_calibration_error, platt, same_fold_auroc


def test_platt_calibrates_without_reordering_a_fold():
    rng = np.random.default_rng(0)
    y, folds = rng.integers(0, 2, 2000), np.arange(2000) % 5
    scores = 40 * (rng.normal(size=2000) + 1.5 * y) + 1000 * folds
    probabilities = platt(y, scores, folds)
    assert expected_calibration_error(y, probabilities) < 0.05
    expected = same_fold_auroc(y, scores, folds)
    assert same_fold_auroc(y, probabilities, folds) == pytest.approx(expected)


def test_useless_scores_give_the_base_rate():
    rng = np.random.default_rng(0)
    y, folds = (rng.random(3000) < 0.2).astype(int), np.arange(3000) % 5
    probabilities = platt(y, rng.normal(size=3000), folds)
    assert np.abs(probabilities - y.mean()).max() < 0.12

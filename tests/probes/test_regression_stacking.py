"""Stacked regressions: what the text has already is no gain, what it lacks is."""

from __future__ import annotations

import numpy as np
import pytest

from probes import (
    Candidate,
    RegressionResult,
    nested_ridge_regression,
    same_fold_r2,
    stacked_predictions,
    stacked_r2_gain,
    stacked_training_predictions,
)

GROUPS = np.repeat(np.arange(50), 3)


def nested(features: np.ndarray, y: np.ndarray) -> RegressionResult:
    return nested_ridge_regression(
        [Candidate("a", (features,))], y, GROUPS, n_regroupings=2, seed=1
    )


def gain(y: np.ndarray, text: np.ndarray, states: np.ndarray):
    of_text, of_states = nested(text, y), nested(states, y)
    return stacked_r2_gain(
        y,
        of_text.predicted,
        of_states.predicted,
        of_text.folds,
        GROUPS,
        training_predicted=(of_text.training_predicted, of_states.training_predicted),
    )


def test_a_noisy_copy_of_the_text_gains_nothing_and_news_gain_their_share() -> None:
    rng = np.random.default_rng(0)
    text = rng.normal(size=(150, 6))
    news = rng.normal(size=(150, 6))
    copy = text + 0.7 * rng.normal(size=text.shape)
    y = text[:, 0] + news[:, 0] + rng.normal(size=150)
    of_copy, of_news = gain(y, text, copy), gain(y, text, np.hstack([copy, news]))
    assert of_copy.low < 0 < of_copy.high
    assert abs(of_copy.estimate) < 0.05
    # A third of the variance of y is the news'; the probe has noise of its own.
    assert 0.15 < of_news.estimate < 0.4
    assert of_news.low > 0


def test_weights_are_fitted_without_the_fold_and_never_negative() -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(size=150)
    folds = (GROUPS % 3)[None]
    column = y + 0.3 * rng.normal(size=150)
    columns = np.stack([column, -column], axis=-1)[None]
    training = np.repeat(columns[:, None], 3, axis=1)
    stacked = stacked_predictions(columns, y, folds, training)
    for fold in range(3):
        test = folds[0] == fold
        slope, level = np.polyfit(column[~test], y[~test], 1)
        np.testing.assert_allclose(stacked[0, test], level + slope * column[test])
    within = stacked_training_predictions(training, y, folds)
    kept, test = folds[0] == 2, folds[0] == 1
    slope, level = np.polyfit(column[kept], y[kept], 1)
    np.testing.assert_allclose(within[0, 0, test], level + slope * column[test])
    assert (within[0, 0, folds[0] == 0] == 0).all()


def test_the_gain_is_that_of_the_stacks() -> None:
    rng = np.random.default_rng(2)
    y = rng.normal(size=150)
    text, states = (y[:, None] + rng.normal(size=(150, 2)) for _ in range(2))
    a, b = nested(text, y), nested(states, y)
    training = np.stack([a.training_predicted, b.training_predicted], axis=-1)
    both = stacked_predictions(np.stack([a.predicted, b.predicted], -1), y, a.folds, training)
    alone = stacked_predictions(a.predicted[..., None], y, a.folds, training[..., :1])
    expected = [
        same_fold_r2(y, one, f) - same_fold_r2(y, two, f)
        for one, two, f in zip(both, alone, a.folds, strict=True)
    ]
    assert gain(y, text, states).estimate == pytest.approx(np.mean(expected))

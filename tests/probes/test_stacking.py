from __future__ import annotations

import numpy as np
import pytest

from probes import (
    Candidate,
    auroc_difference,
    cross_fitted_stack,
    nested_ridge,
    same_fold_auroc,
    stacked_gain,
    stacked_training_scores,
)
from probes.simulation import clustered_data, clustered_normal


def regroupings(rng, groups, count=2):
    n_groups = groups.max() + 1
    return np.stack([(rng.permutation(n_groups) % 5)[groups] for _ in range(count)])


def test_independent_errors_stack_though_their_difference_is_zero():
    rng = np.random.default_rng(0)
    groups = np.arange(4000)
    y = rng.integers(0, 2, 4000)
    text, probe = rng.normal(size=(2, 4000)) + 1.19 * y  # 0.80 each
    folds = regroupings(rng, groups)
    raw = auroc_difference(y, probe, text, folds, groups, estimand="fixed")
    assert raw.low < 0 < raw.high
    gain = stacked_gain(y, text, probe, folds, groups)
    assert gain.low > 0.05
    stacked = cross_fitted_stack(np.stack([np.stack([text, probe], -1)] * 2), y, folds)
    assert same_fold_auroc(y, stacked[0], folds[0]) == pytest.approx(0.885, abs=0.015)


def test_labels_of_a_fold_do_not_touch_its_stack():
    rng = np.random.default_rng(0)
    folds = regroupings(rng, np.arange(100), 1)
    y = rng.integers(0, 2, 100)
    columns = rng.normal(size=(1, 100, 2)) + y[:, None]
    before = cross_fitted_stack(columns, y, folds)
    flipped = np.where(folds[0] == 2, 1 - y, y)
    after = cross_fitted_stack(columns, flipped, folds)
    held_out = folds[0] == 2
    np.testing.assert_array_equal(before[0, held_out], after[0, held_out])
    assert (before[0, ~held_out] != after[0, ~held_out]).all()


def test_trap_19_a_stack_of_noise_scores_one_half():
    """Through everything: features, nested selection, stack, a further stack on top of it."""
    aurocs, gains = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(60), 2)
        y = rng.integers(0, 2, len(groups))
        nested = [
            nested_ridge([Candidate("noise", (rng.normal(size=(len(y), 12)),))], y, groups)
            for _ in range(4)
        ]
        folds = nested[0].folds
        columns = np.stack([one.scores for one in nested[:3]], axis=-1)
        training = np.stack([one.training_scores for one in nested[:3]], axis=-1)
        text = cross_fitted_stack(columns, y, folds, training_columns=training)
        aurocs.append(
            np.mean([same_fold_auroc(y, one, f) for one, f in zip(text, folds, strict=True)])
        )
        gain = stacked_gain(
            y,
            text,
            nested[3].scores,
            folds,
            groups,
            training_scores=(
                stacked_training_scores(training, y, folds),
                nested[3].training_scores,
            ),
        )
        gains.append(gain.estimate)
    for values, expected in ((aurocs, 0.5), (gains, 0.0)):
        error = np.std(values) / np.sqrt(len(values))
        assert abs(np.mean(values) - expected) < 3 * error
        assert error < 0.012


def test_weights_are_never_negative():
    rng = np.random.default_rng(1)
    y = np.arange(200) % 2
    folds = regroupings(rng, np.arange(200), 1)
    good = y + rng.normal(size=200)
    columns = np.stack([good, -good], axis=-1)[None]
    alone = cross_fitted_stack(columns[..., :1], y, folds)
    np.testing.assert_allclose(cross_fitted_stack(columns, y, folds), alone)


def test_noisy_copy_of_the_text_is_not_called_a_gain():
    """The stack loses a little by fitting a useless column, so errors lie on the safe side."""
    gains = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(60), 3)
        data = clustered_data(rng, groups, 1, icc=0.3)
        text = clustered_normal(rng, groups, 1, 0.3)[:, 0] + data.y
        copy = text + rng.normal(size=len(text))
        gains.append(stacked_gain(data.y, text, copy, regroupings(rng, groups), groups))
    # Of 120 at a true 2.5%, three binomial standard deviations are 4.3 points.
    assert np.mean([gain.low > 0 for gain in gains]) < 0.068
    assert -0.02 < np.mean([gain.estimate for gain in gains]) < 0.001


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="regrouping, item, predictor"):
        cross_fitted_stack(np.zeros((10, 2)), np.arange(10) % 2, np.zeros((1, 10)))

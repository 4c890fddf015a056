"""The long forms, with more regimes and their tables, are in `benchmarks/` and docs/statistics.md."""

from __future__ import annotations

import numpy as np

from benchmarks.leakage import leak
from benchmarks.never_by_rows import pooled
from benchmarks.noise import noise_scores
from benchmarks.planted_layer import find
from benchmarks.simulations import mean_and_error
from benchmarks.stacked_gain import Regime, gain_of_a_copy


def drawn(one, count, **regime):
    """Results of the seeds whose draw can be scored, most of which can."""
    results = [result for seed in range(count) if (result := one(seed, **regime)) is not None]
    assert len(results) > 0.8 * count
    return results


def test_the_selected_score_of_a_noise_grid_is_one_half():
    small = {"n_groups": 60, "n_cells": 5, "n_features": 6}
    rows = drawn(noise_scores, 60, icc=0.0, **small)
    rows += drawn(noise_scores, 60, icc=0.3, base_rate=0.3, **small)
    rows += drawn(noise_scores, 60, icc=0.6, **small)
    (selected, best), (error, _) = mean_and_error(rows)
    # Three standard errors: by luck once in 370 choices of seeds. The best of the grid is ten off.
    assert error < 0.006
    assert abs(selected - 0.5) < 3 * error
    assert best > 0.5 + 8 * error


def test_a_planted_layer_is_found_where_it_was_planted():
    for layer, kind in ((1, "bump"), (6, "alone")):
        found = drawn(find, 8, layer=layer, kind=kind, auroc=0.85, test=False)
        # In the long form 97% or more are right; of 16, more than 2 wrong are then a matter of 1 in 80.
        assert sum(one.modal == layer for one in found) >= 7
        assert sum(one.peak == layer for one in found) >= 7


def test_a_planted_layer_is_significant():
    found = drawn(find, 6, layer=4, kind="alone", auroc=0.85)
    assert sum(one.significant for one in found) >= 5


def test_leakage_raises_the_naive_score_and_not_ours():
    rows = np.array(drawn(leak, 40, fingerprint=0.8, auroc=0.5))
    (by_rows, by_groups, new_groups), error = mean_and_error(rows)
    # The naive score is 0.81 in the long form, 15 standard errors above chance.
    assert by_rows > 0.75
    assert abs(by_groups - new_groups) < 3 * mean_and_error(rows[:, 1] - rows[:, 2])[1]
    assert error[1] < 0.03


def test_ranking_folds_together_makes_noise_worse_than_chance():
    rows = drawn(pooled, 120, n_groups=20, base_rate=0.3, alpha=100.0)
    (together, same_fold), error = mean_and_error(rows)
    # 0.42 and 0.50 in the long form, with an error of 0.01 here.
    assert together < 0.5 - 4 * error[0]
    assert abs(same_fold - 0.5) < 3 * error[1]


def test_a_noisy_copy_of_a_learned_text_is_no_gain_and_news_is():
    copy = Regime(text_features=5, n_groups=40, icc=0.3, auroc=0.8, noise=1.0)
    draws = drawn(gain_of_a_copy, 36, regime=copy)
    # At a true 5%, more than 5 of 36 miss 0 by luck once in 100 choices of seeds.
    for intervals in ([one.gain for one in draws], [one.lean for one in draws]):
        assert sum(each.low > 0 or each.high < 0 for each in intervals) <= 5
    mean, error = mean_and_error([one.gain.estimate for one in draws])
    assert -0.01 < mean < 3 * error
    leaning = np.array([one.lean.estimate for one in draws])
    assert abs(leaning.mean()) < 3 * mean_and_error(leaning)[1]
    news = Regime(text_features=5, n_groups=40, icc=0.3, auroc=0.8, noise=1.0, own=2.0)
    found = [one.gain.low > 0 for one in drawn(gain_of_a_copy, 5, regime=news)]
    assert sum(found) >= 4

"""What predictions over several seeds are worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from experiments.self_prediction.predicted import Predicted
from experiments.self_prediction.scores import gain_json, over_seeds, score_seeds
from probes import Interval
from tests.experiments.self_prediction.planted import labeled_items

LABELED = labeled_items(30, 3)
OUTCOME, GROUPS = LABELED.outcome, LABELED.groups


def test_means_over_seeds_of_what_scikit_learn_says() -> None:
    rng = np.random.default_rng(0)
    seeds = [np.clip(0.3 * OUTCOME + rng.random(len(OUTCOME)) * 0.7, 0, 1) for _ in range(3)]
    scores = score_seeds(
        OUTCOME, GROUPS, [Predicted.of_probability(p, 0.0) for p in seeds], is_trained=True
    )
    aurocs = [roc_auc_score(OUTCOME, p) for p in seeds]
    right = [((p > 0.5) == OUTCOME).mean() for p in seeds]
    assert scores.auroc.estimate == pytest.approx(np.mean(aurocs))
    assert scores.auroc_of_seeds == pytest.approx(aurocs)
    assert scores.strict.estimate == pytest.approx(np.mean(right))
    assert scores.lenient == pytest.approx(np.mean(right))
    rate = OUTCOME.mean()
    assert scores.skill.estimate == pytest.approx(np.mean(right) - max(rate, 1 - rate))
    assert scores.brier == pytest.approx(np.mean([brier_score_loss(OUTCOME, p) for p in seeds]))
    assert scores.auroc.low < scores.auroc.estimate < scores.auroc.high
    untrained = score_seeds(
        OUTCOME, GROUPS, [Predicted.of_probability(p, 0.0) for p in seeds], is_trained=False
    )
    assert untrained.auroc.low > scores.auroc.low  # another training set would vary too


def test_trainings_that_go_either_way_are_not_taken_for_a_result() -> None:
    """Shuffled labels may turn what is trained toward the truth or away from it: AUROC near 1 or near 0."""
    toward = np.clip(0.8 * OUTCOME + 0.1, 0, 1)
    seeds = [toward, 1 - toward, 1 - toward]
    scores = score_seeds(
        OUTCOME, GROUPS, [Predicted.of_probability(p, 0.0) for p in seeds], is_trained=True
    )
    assert scores.auroc.estimate == pytest.approx(1 / 3)
    assert scores.auroc.low == 0
    assert scores.auroc.high == 1
    assert scores.skill.low < 0 < scores.skill.high


def test_means_over_seeds_have_intervals_that_cover_their_mean() -> None:
    """Three seeds at a time, drawn around 0.6: 95% of the intervals cover it, items being held fixed."""
    rng = np.random.default_rng(3)
    exact = Interval(0.6, 0.6, 0.6, "", 30, False)
    covered = 0
    for _ in range(400):
        drawn = rng.normal(0.6, 0.05, 3)
        found = over_seeds(
            replace(exact, estimate=drawn.mean(), low=drawn.mean(), high=drawn.mean()),
            drawn.tolist(),
        )
        covered += found.low <= 0.6 <= found.high
    assert 0.92 <= covered / 400 <= 0.98


@pytest.mark.parametrize("constant", [0, 1])
def test_a_constant_predictor_has_no_skill(constant: int) -> None:
    said = Predicted.of_probability(np.full(len(OUTCOME), float(constant)), 0.0)
    scores = score_seeds(OUTCOME, GROUPS, [said], is_trained=False)
    is_best = constant == round(OUTCOME.mean())
    assert (scores.skill.estimate == 0) == is_best
    assert scores.skill.estimate <= 0
    assert scores.auroc.estimate == 0.5


def test_an_unreadable_answer_counts_nothing_and_the_gain_is_divided() -> None:
    odds = np.linspace(0.1, 0.9, len(OUTCOME))
    right = tuple(int(one) for one in OUTCOME)
    half = tuple(one if i % 2 else None for i, one in enumerate(right))
    before, after = (
        score_seeds(OUTCOME, GROUPS, [Predicted(odds, odds, said, 0.0)], is_trained=False)
        for said in (half, right)
    )
    assert before.parse_rate == before.strict.estimate == 0.5
    assert before.lenient == 1.0
    gain = gain_json(before, after)
    assert gain == {"total": 0.5, "format": 0.5, "quality": 0.0}
    silent = score_seeds(
        OUTCOME, GROUPS, [Predicted(odds, odds, (None,) * len(odds), 0.0)], is_trained=False
    )
    assert silent.lenient is None
    assert sum(gain_json(silent, after)[part] or 0 for part in ("format", "quality")) == 1.0

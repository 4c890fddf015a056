"""The probe and the text: trained on what may be seen, applied to what is tested."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from experiments.self_prediction.cells import Cell
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.predicted import Predicted
from experiments.self_prediction.readers import read_by_probe, read_by_text
from probes import RidgeProbe
from probes.ridge import RidgeSource
from tests.experiments.self_prediction.planted import PLANTED, labeled_items, planted_material


def seen_and_test(labeled: Labeled) -> tuple[Labeled, Labeled]:
    parts = planted_material(labeled).parts(0)
    return parts.train.joined(parts.validation), parts.test


def test_the_probe_finds_the_place_and_the_outcome() -> None:
    labeled = labeled_items()
    material = planted_material(labeled)
    seen, test = seen_and_test(labeled)
    place, found = read_by_probe(material, seen, {"test": (material, test)}, 0)
    assert place == PLANTED
    assert roc_auc_score(test.outcome, found["test"].score) > 0.95
    assert np.mean((found["test"].probability > 0.5) == test.outcome) > 0.85


def test_a_probe_is_the_ridge_fit_that_its_probabilities_are_calibrated_for() -> None:
    """The out-of-fold scores come of another implementation than those of the test."""
    rng = np.random.default_rng(0)
    states, outcome = rng.standard_normal((40, 12)), rng.integers(0, 2, 40)
    train, test = np.arange(30), np.arange(30, 40)
    targets = 2.0 * outcome[:30, None] - 1
    by_source = RidgeSource(states).scores(train, test, targets, [0.3])[0, :, 0]
    by_probe = RidgeProbe(0.3).fit(states[:30], outcome[:30]).decision_function(states[30:])
    np.testing.assert_allclose(by_probe, by_source, atol=1e-6)


def test_labels_of_the_test_are_not_read() -> None:
    labeled = labeled_items(cue=True)
    material = planted_material(labeled)
    seen, test = seen_and_test(labeled)

    def predict(of: Labeled) -> list[Predicted]:
        tests = {"test": (material, of)}
        return [
            read_by_probe(material, seen, tests, 0)[1]["test"],
            read_by_text(seen, tests, 0)["test"],
        ]

    for before, after in zip(predict(test), predict(test.relabeled(1 - test.outcome)), strict=True):
        np.testing.assert_array_equal(before.score, after.score)


def test_the_text_reads_a_cue_and_nothing_else() -> None:
    aurocs = []
    for cue in (True, False):
        labeled = labeled_items(cue=cue)
        seen, test = seen_and_test(labeled)
        tests = {"test": (planted_material(labeled), test)}
        found = read_by_text(seen, tests, 0)["test"]
        aurocs.append(roc_auc_score(test.outcome, found.score))
        assert np.isfinite(found.probability).all()
    assert aurocs[0] > 0.95
    assert abs(aurocs[1] - 0.5) < 0.3


def test_shuffled_labels_are_at_chance() -> None:
    labeled = labeled_items()
    material = planted_material(labeled, seeds=12)
    aurocs = []
    for seed in range(12):
        train, validation = material.training(Cell("parity", "probe", "shuffled", 1, seed))
        assert sorted(train.joined(validation).ids) == sorted(seen_and_test(labeled)[0].ids)
        test = material.parts(seed).test
        tests = {"test": (material, test)}
        _, found = read_by_probe(material, train.joined(validation), tests, seed)
        aurocs.append(roc_auc_score(test.outcome, found["test"].score))
    # The standard error of the mean is about 0.06: one draw of labels may agree with the truth by chance.
    assert np.mean(aurocs) == pytest.approx(0.5, abs=0.18)

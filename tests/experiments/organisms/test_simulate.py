"""The simulator's known truth, checked without the diagnosis: every AUROC has a closed form."""

from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score

from experiments.organisms.planted import PLANTED_STAGES, Plant, plant_of
from experiments.organisms.simulate import (
    Clustering,
    Simulated,
    draw,
    draw_text_label,
    separation,
    simulate,
)
from probes import criterion

MANY = 20_000
INDEPENDENT = Clustering(sizes=(1, 1), icc=0.0, label_icc=0.0)
SAMPLING = 0.016
"""Three standard errors of an AUROC near 0.5 of 10,000 items, the half that is scored."""


def best_auroc(features: np.ndarray, outcome: np.ndarray) -> float:
    """Of the best linear reader, which for normal classes of equal covariance is the best of all."""
    half = len(outcome) // 2
    model = LinearDiscriminantAnalysis().fit(features[:half], outcome[:half])
    return float(roc_auc_score(outcome[half:], model.decision_function(features[half:])))


@pytest.mark.parametrize(
    "plant",
    [
        *(plant_of(stage) for stage in PLANTED_STAGES),
        Plant(text=0.60, slot=0.73, words=0.73),
        Plant(slot=0.55, words=0.52),
        Plant(words=0.15),
        Plant(text=0.80, task=0.80, slot=0.80, words=0.80, holds_text=False),
        plant_of("not_read_out", 1.6),
    ],
    ids=str,
)
def test_every_reader_finds_what_was_planted(plant: Plant) -> None:
    data = draw(plant, MANY, n_layers=1, clustering=INDEPENDENT)
    found = {
        "text": best_auroc(data.text, data.outcome),
        "task": best_auroc(data.task[:, -1], data.outcome),
        "slot": best_auroc(data.slot[:, -1], data.outcome),
        "words": roc_auc_score(data.outcome, data.margin),
    }
    planted = {name: getattr(plant, name) for name in found}
    assert found == pytest.approx(planted, abs=SAMPLING)


def test_states_add_to_the_text_what_lies_between_them() -> None:
    """The states hold the text's own value: text and states together know what the states do."""
    for stage, together in (("faithful", 0.85), ("not_beyond_text", 0.85)):
        data = simulate(stage, MANY, n_layers=1, clustering=INDEPENDENT)
        both = np.column_stack([data.text, data.task[:, -1]])
        assert best_auroc(both, data.outcome) == pytest.approx(together, abs=SAMPLING)


def test_a_slot_that_lost_all_of_its_own_adds_nothing_to_the_text() -> None:
    data = simulate("not_transported", MANY, n_layers=1, clustering=INDEPENDENT)
    both = np.column_stack([data.text, data.slot[:, -1]])
    assert best_auroc(both, data.outcome) == pytest.approx(data.plant.text, abs=SAMPLING)


def test_complements_stack() -> None:
    """Two of 0.80 with independent errors come to Phi(Phi^-1(0.80) sqrt 2)."""
    plant = Plant(text=0.80, task=0.80, slot=0.80, words=0.80, holds_text=False)
    data = draw(plant, MANY, n_layers=1, clustering=INDEPENDENT)
    both = np.column_stack([data.text, data.task[:, -1]])
    stacked = norm.cdf(norm.ppf(0.80) * np.sqrt(2))
    assert stacked == pytest.approx(0.883, abs=0.001)
    assert best_auroc(both, data.outcome) == pytest.approx(stacked, abs=SAMPLING)


def test_the_margin_is_a_readout_of_the_slot() -> None:
    data = simulate("not_read_out", 200)
    read = data.slot[:, -1] @ data.readout
    assert np.ptp(read - data.margin) < 1e-9


def test_errors_are_shared_between_task_and_slot() -> None:
    """Within a class, the best readers' scores correlate by the noise that they share."""
    data = simulate("faithful", MANY, n_layers=1, clustering=INDEPENDENT)
    scores = []
    for states in (data.task[:, -1], data.slot[:, -1]):
        model = LinearDiscriminantAnalysis().fit(states, data.outcome)
        scores.append(model.decision_function(states)[data.outcome == 1])
    assert 0.85 < np.corrcoef(scores)[0, 1] < 0.98


def test_groups_share_noise_and_outcomes() -> None:
    data = simulate("faithful", 3000)
    sizes = np.bincount(data.groups)
    assert sizes[:-1].min() == 2
    assert sizes.max() == 4
    residual = data.margin - np.where(data.outcome == 1, 1, -1) * separation(0.85) / 2
    first = np.flatnonzero(np.diff(data.groups, prepend=-1))
    pairs = np.column_stack([first[:-1], first[:-1] + 1])
    assert np.corrcoef(residual[pairs].T)[0, 1] == pytest.approx(0.3, abs=0.09)
    same = (data.outcome[pairs[:, 0]] == data.outcome[pairs[:, 1]]).mean()
    assert same == pytest.approx(0.5 + np.arcsin(0.3) / np.pi, abs=0.05)


def test_what_layers_know_grows() -> None:
    data = simulate("faithful", MANY, n_layers=4, clustering=INDEPENDENT)
    found = [best_auroc(data.task[:, layer], data.outcome) for layer in range(4)]
    shares = np.arange(1, 5) / 4
    assert found == pytest.approx(
        norm.cdf(separation(0.85) * np.sqrt(shares / 2)).tolist(), abs=SAMPLING
    )


@pytest.mark.parametrize("effect", [0.0, 0.4, 1.0])
def test_answers_lean_and_fall_silent_as_planted(effect: float) -> None:
    leaning = simulate("miscalibrated", MANY, n_layers=1, effect=effect, clustering=INDEPENDENT)
    answers = leaning.answer.astype(int)
    assert criterion(leaning.outcome, answers) == pytest.approx(1.25 * effect, abs=0.03)
    silent = simulate("unparsed", MANY, n_layers=1, effect=effect, clustering=INDEPENDENT)
    assert np.isnan(silent.answer).mean() == pytest.approx(0.5 * effect, abs=0.01)


def test_a_label_of_the_text_is_learned_from_the_text_and_from_nothing_else() -> None:
    data = draw_text_label(MANY, n_layers=1, clustering=INDEPENDENT)
    text = best_auroc(data.text, data.outcome)
    assert text > 0.995
    both = np.column_stack([data.text, data.task[:, -1]])
    assert best_auroc(both, data.outcome) == pytest.approx(text, abs=0.002)
    assert best_auroc(data.task[:, -1], data.outcome) < text - 0.02


def same(first: Simulated, second: Simulated) -> bool:
    return all(
        np.array_equal(getattr(first, field.name), getattr(second, field.name), equal_nan=True)
        for field in fields(first)
        if field.name != "plant"
    )


def test_a_seed_fixes_every_number() -> None:
    first, again, other = (simulate("unparsed", 90, seed=seed) for seed in (3, 3, 4))
    assert same(first, again)
    assert not same(first, other)
    assert same(draw_text_label(90, seed=3), draw_text_label(90, seed=3))


def test_plants_that_differ_in_the_words_share_all_states() -> None:
    """What lets the certification fit their probes once."""
    first, second = (simulate(stage, 90, seed=3) for stage in ("not_read_out", "unparsed"))
    assert np.array_equal(first.slot, second.slot)
    assert np.array_equal(first.outcome, second.outcome)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stage": "lost"}, "stage: 'lost' is unknown"),
        ({"effect": 3.0}, "effect: 3.0 is more than not_transported can lose"),
        ({"n": 1}, "n: 1 is under 2"),
        ({"d_model": 2}, "d_model: 2 is under 3"),
        ({"n_layers": 0}, "n_layers: 0 is under 1"),
    ],
)
def test_what_cannot_be_planted_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(**({"stage": "not_transported", "n": 60} | arguments))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"text": 0.4}, "text: 0.4 is no AUROC"),
        ({"text": 0.9}, "task: 0.85 is under the text's 0.9"),
        ({"slot": 0.9}, "slot: 0.9 is over"),
        ({"words": 0.9}, "words: 0.9 cannot be read"),
        ({"parse_rate": 1.2}, "parse_rate: 1.2 is no share"),
    ],
)
def test_plants_that_contradict_themselves_are_refused(
    values: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Plant(**values)

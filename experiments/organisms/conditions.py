"""The conditions of the certificate: what is planted in each, and which diagnosis of it is right.

Standard plants lose all that there is to lose (`plant_of` at effect 1). Graded ones lose a multiple of the margin of
the rule that they concern. Large ones are for few items. Variants are what might fool the instrument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from experiments.breakdown import Breakdown
from experiments.inequalities import DEFAULT_RULES, Rules
from experiments.organisms.planted import (
    FULL_BIAS,
    FULL_LOSS,
    FULL_SILENCE,
    KNOWN,
    PLANTED_STAGES,
    Plant,
    plant_of,
)
from experiments.organisms.simulate import Clustering, Simulated, draw, draw_text_label

Suite = Literal["standard", "graded", "large", "variant"]
Diagnosed = Literal["right", "wrong", "undetermined"]
N_LAYERS = 3

LARGE_KNOWN, LARGE_SAID = 0.97, 0.5
NEAR_COPIES = 30
"""Groups, in each of which all items are almost the same."""


@dataclass(frozen=True)
class Condition:
    """One thing that is planted."""

    suite: Suite
    name: str
    """The planted stage, or what the variant is called."""
    multiple: float | None
    """The loss in margins, of graded plants."""
    right: frozenset[str]
    """The stages that are a right diagnosis."""
    simulate: Callable[[int, int], Simulated]
    """From the number of items and the seed."""

    def diagnosed(self, breakdown: Breakdown) -> Diagnosed:
        """Whether a diagnosis of it is right, wrong or left open."""
        return diagnosed(self.right, breakdown)


def diagnosed(planted: str | Iterable[str], breakdown: Breakdown) -> Diagnosed:
    """Whether a diagnosis is right: the planted stage (or one of several), another one, or none."""
    if breakdown.stage == "undetermined":
        return "undetermined"
    stages = {planted} if isinstance(planted, str) else set(planted)
    return "right" if breakdown.stage in stages else "wrong"


def standard() -> list[Condition]:
    """Every stage, lost wholly: an AUROC of 0.85 falls to the 0.65 of the text, a criterion is 1.25, half is silent."""
    return [_planted("standard", stage, plant_of(stage)) for stage in PLANTED_STAGES]


def large() -> list[Condition]:
    """Every stage with an AUROC of 0.97 that falls to 0.5: what few items can decide."""
    return [
        _planted("large", stage, plant_of(stage, known=LARGE_KNOWN, said=LARGE_SAID))
        for stage in PLANTED_STAGES
    ]


def graded(multiples: Iterable[float], rules: Rules = DEFAULT_RULES) -> list[Condition]:
    """Every stage with a loss of so many margins.

    Under one margin a loss is there but does not count: naming it and naming no loss are both right. With none at all
    the right diagnosis is "faithful", and where what is graded is the lead over the text, "not_beyond_text".
    """
    return [
        replace(
            _planted("graded", stage, plant_of(stage, multiple * _margin_as_effect(stage, rules))),
            multiple=multiple,
            right=_right(stage, multiple),
        )
        for stage in PLANTED_STAGES
        for multiple in multiples
    ]


def variants(seed: int) -> list[Condition]:
    """What might fool the instrument; the near-copies are of every stage in turn."""
    stage = PLANTED_STAGES[seed % len(PLANTED_STAGES)]
    lost = Plant(text=0.60, slot=0.73, words=0.73)
    inverted = Plant(words=1 - KNOWN)
    complementary = Plant(text=0.80, task=0.80, slot=0.80, words=0.80, holds_text=False)
    return [
        replace(_planted("variant", "not_transported", lost), name="partly lost"),
        replace(_planted("variant", "not_read_out", inverted), name="inverted words"),
        replace(
            _planted("variant", "faithful", complementary), name="text and probe complementary"
        ),
        replace(
            _planted("variant", stage, plant_of(stage)),
            name=f"{NEAR_COPIES} groups of near-copies",
            simulate=partial(_near_copies, plant_of(stage)),
        ),
        Condition("variant", "shuffled outcome", None, frozenset({"not_beyond_text"}), _shuffled),
        Condition(
            "variant", "label of the text", None, frozenset({"not_beyond_text"}), _text_label
        ),
    ]


def _planted(suite: Suite, stage: str, plant: Plant) -> Condition:
    return Condition(suite, stage, None, frozenset({stage}), partial(_drawn, plant))


def _drawn(plant: Plant, n: int, seed: int) -> Simulated:
    return draw(plant, n, n_layers=N_LAYERS, seed=seed)


def _near_copies(plant: Plant, n: int, seed: int) -> Simulated:
    size = -(-n // NEAR_COPIES)
    copies = Clustering(sizes=(size, size), icc=0.95, label_icc=0.95)
    return draw(plant, n, n_layers=N_LAYERS, seed=seed, clustering=copies)


def _shuffled(n: int, seed: int) -> Simulated:
    """Whole groups exchange their outcomes, so that neighbors stay as alike as they were."""
    data = _drawn(plant_of("faithful"), n, seed)
    rng = np.random.default_rng([seed, 1])
    starts = np.flatnonzero(np.diff(data.groups, prepend=-1))
    blocks = np.split(data.outcome, starts[1:])
    order = rng.permutation(len(blocks))
    return replace(data, outcome=np.concatenate([blocks[block] for block in order]))


def _text_label(n: int, seed: int) -> Simulated:
    return draw_text_label(n, n_layers=N_LAYERS, seed=seed)


def _margin_as_effect(stage: str, rules: Rules) -> float:
    """The effect at which the loss of a stage is one margin."""
    return {
        "not_beyond_text": rules.delta / (KNOWN - 0.5),
        "unparsed": (1 - rules.parse_rate) / FULL_SILENCE,
        "miscalibrated": rules.criterion / FULL_BIAS,
    }.get(stage, rules.delta / FULL_LOSS)


def _right(stage: str, multiple: float) -> frozenset[str]:
    """By the values of the population; see `graded`."""
    without = "not_beyond_text" if stage == "faithful" else "faithful"
    if stage == "not_beyond_text" or multiple >= 1:
        return frozenset({stage})
    return frozenset({without} if multiple == 0 else {stage, without})

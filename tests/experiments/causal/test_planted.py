"""Steering and ablation where the truth is known: the behavior hangs on a planted direction, and no report does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.causal.directions import FITTED, Directions, fit_directions
from experiments.causal.dissociation import dissociation
from experiments.causal.measured import Movements
from experiments.causal.readouts import Readouts, choose_items, readouts_of
from experiments.causal.settings import CausalSettings
from experiments.causal.store import Store
from experiments.causal.subject import Place, Subject
from experiments.causal.sweep import Sweep, by_tail, sweep
from experiments.causal_record import READOUTS
from experiments.run_folder import RunFolder
from hooks import Ablate, Prompt, Steer, intervene, render
from tests.experiments.causal.planted import planted_subject

DOSE = 0.5


class Found:
    """A subject, swept once."""

    def __init__(self, folder: Path) -> None:
        self.subject, self.planted = planted_subject()
        settings = CausalSettings()
        self.directions = fit_directions(self.subject, settings)
        self.chosen = choose_items(self.subject, self.directions.half_of, 40, 0)
        self.readouts = readouts_of(self.subject, self.chosen, RunFolder(folder))
        store = Store(folder / "parts.jsonl", {})
        before = self.subject.model.fingerprint["weights"]
        self.sweep = sweep(
            self.subject,
            self.directions,
            self.readouts,
            self.chosen,
            12,
            DOSE,
            store,
            lambda steps: None,
        )
        assert self.subject.model.fingerprint["weights"] == before
        rows = list(self.chosen)
        self.movements = Movements(
            self.sweep, self.directions, self.subject.outcome[rows], self.subject.groups[rows]
        )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return Found(tmp_path_factory.mktemp("planted"))


def test_the_planted_direction_moves_the_behavior_and_no_other_does(found: Found) -> None:
    for direction in (0, 1):
        cosine = found.directions.vectors[:, direction] @ found.planted
        effect = found.movements.effect("behavior", direction)
        assert cosine.min() > 0.2
        assert effect.estimate > 0
        assert effect.n_null == 199
        assert effect.p is not None
        assert effect.p < 0.01


def test_the_report_is_blind_to_it(found: Found) -> None:
    table = dissociation(found.movements, True, seed=0)
    assert list(table["rows"]) == list(READOUTS)
    assert table["pattern"] == "behavior only"
    assert dissociation(found.movements, False, seed=0)["pattern"] == "undecided"


def test_ablation_takes_the_outcome_out_of_the_behavior(found: Found) -> None:
    ablated = found.movements.ablation_json("a warning")["behavior"]
    before, change = ablated["gap_before"], ablated["mean"]["diff_means"]["gap_change"]
    assert before["estimate"] > 0
    assert change["ci"][1] < 0


def through_hooks(subject: Subject, readouts: Readouts, name: str, row: int, change: Any) -> float:
    """The log-odds of a slot, by hooks on the whole prompt in a bare pass."""
    slot = readouts.slots[name][row]
    tokens = torch.tensor([render(subject.model, slot.prompt).token_ids])
    with torch.inference_mode(), intervene(subject.model, [change]):
        logits = subject.model.module(input_ids=tokens).logits[0, -1].double()
    probabilities = torch.softmax(logits, dim=-1)
    yes = probabilities[list(slot.yes)].sum()
    no = 1 - yes if slot.no is None else probabilities[list(slot.no)].sum()
    return float(torch.log(yes / no))


@pytest.mark.parametrize("name", READOUTS)
def test_what_is_measured_is_what_hooks_on_the_whole_prompt_give(found: Found, name: str) -> None:
    """At the last block, states before the answer slot change nothing: hooks may as well change all of them."""
    swept: Sweep = found.sweep
    directions: Directions = found.directions
    for row in (0, 5):
        half = directions.half_of[found.chosen[row]]
        for direction in (0, 1, 2, 150):
            vector = torch.tensor(directions.vectors[half, direction], dtype=torch.float32)
            steer = Steer("resid_post", 2, vector, DOSE * directions.unit)
            wanted = through_hooks(found.subject, found.readouts, name, row, steer)
            assert swept.steered[name][row, direction, -1] == pytest.approx(wanted, abs=1e-3)
        vector = torch.tensor(directions.vectors[half, 0], dtype=torch.float32)
        with pytest.warns(UserWarning, match="adds the direction"):
            zero = Ablate("resid_post", 2, vector, to_zero=True)
        wanted = through_hooks(found.subject, found.readouts, name, row, zero)
        assert swept.ablated[name][row, 0, 1] == pytest.approx(wanted, abs=1e-3)


def test_nulls_are_measured_on_some_items_alone(found: Found) -> None:
    steered = found.sweep.steered["behavior"]
    assert np.isnan(steered[12:, 2:]).all()
    assert not np.isnan(steered[:12, :, -1]).any()
    ablated = found.sweep.ablated["behavior"][:, :, 0]
    probe, means = (
        [row for rows in found.directions.shown(name) for row in rows] for name in FITTED
    )
    assert len(set(probe)) == len(set(means)) == 40
    assert not np.isnan(steered[:12, probe]).any()
    assert not np.isnan(ablated[:12, probe + means]).any()
    assert not np.isnan(steered[:, :2]).any()


def test_prompts_whose_ends_have_not_as_many_tokens_are_aligned_at_the_end(tmp_path: Path) -> None:
    """Without a chat template letters may be joined across the end of the instruction."""
    subject, _ = planted_subject(n_items=40)
    place = Place("resid_post", 1, "instruction_last", 1)
    subject = replace(subject, place=place)
    directions = fit_directions(subject, CausalSettings(n_null=40))
    chosen = choose_items(subject, directions.half_of, 8, 0)
    readouts = readouts_of(subject, chosen, RunFolder(tmp_path))
    slots = list(readouts.slots["behavior"])
    longer = slots[0].prompt.instruction
    slots[0] = replace(slots[0], prompt=Prompt(id="text", text=longer))
    uneven = Readouts({"behavior": tuple(slots)}, {}, "")
    tails = by_tail(place, subject.model, [slot.prompt for slot in slots])
    assert sorted(map(len, tails.values())) == [1, 7]
    store = Store(tmp_path / "parts.jsonl", {})
    found = sweep(subject, directions, uneven, chosen, 4, DOSE, store, lambda steps: None)
    assert np.isfinite(found.steered["behavior"][:4, :, -1]).all()
    assert np.isfinite(found.ablated["behavior"][:, :2]).all()

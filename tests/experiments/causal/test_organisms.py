"""Steering where the deciding bit lies along a direction by training: organisms, at the planted place."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import Experiment, load_run
from experiments.causal import CausalSettings, causal
from experiments.organisms.build import build
from experiments.organisms.training import FEATURE_LAYER

SETTINGS = CausalSettings(layer=FEATURE_LAYER, position="prompt_last")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "pattern"), [("faithful", "tracks"), ("not_read_out", "behavior only")]
)
def test_the_planted_direction_moves_the_behavior_and_the_report_only_where_it_is_read(
    tmp_path: Path, kind: str, pattern: str
) -> None:
    experiment = Experiment("xor", str(build(kind)), n=160, paraphrases=1, words="short")
    experiment.run(tmp_path / kind)
    found = causal(load_run(tmp_path / kind), "xor", SETTINGS)["tasks"]["xor"]
    behavior = found["steering"]["behavior"]
    for row in (behavior, behavior["diff_means"]):
        assert row["estimate"] > 0
        assert row["n_null"] == 199
        assert row["moved"] == "moves"
        assert row["p_random"] < 0.01
    # Outcome is a main axis of these states, toward which differences of means of shuffled labels lean.
    assert behavior["p"] < 0.01
    assert found["dissociation"]["pattern"] == pattern
    assert found["dissociation"]["diff_means"]["pattern"] == pattern
    ablated = found["ablation"]["behavior"]
    left = (
        1
        + ablated["mean"]["diff_means"]["gap_change"]["estimate"]
        / (ablated["gap_before"]["estimate"])
    )
    assert abs(left) < 0.1
    [answer_slot] = [
        row
        for row in found["patching"]
        if (row["from"], row["into"], row["into_position"])
        == ("task", "self_prediction", "prompt_last")
    ]
    recovery = answer_slot["recovery"]["opposite"]["estimate"]
    assert recovery > 0.7 if kind == "faithful" else recovery < 0.2

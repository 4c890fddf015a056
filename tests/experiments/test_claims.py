"""The claim gate on made-up results: every word earned, withheld and not tested."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from experiments.causal_record import FITS_NEW, SCHEMA
from experiments.claims import Claim, claims, claims_of
from experiments.config import RunConfig, make_config
from experiments.finished import Run
from experiments.run_folder import RunFolder
from tests.experiments.made_up_results import difference, peer, predictor, task_result

RUN = "runs/one"


CONFIG = make_config({"tasks": "refusal"})


def earned(
    result: dict[str, Any], causal: dict[str, Any] | None = None, config: RunConfig = CONFIG
) -> dict[str, Claim]:
    return {one.word: one for one in claims_of(result, causal, RUN, config)}


def with_peer(
    *, probe: bool = True, leads: tuple[float, float, float] = (0.2, 0.2, 0.2)
) -> dict[str, Any]:
    result = task_result()
    result["gap"]["verbal_minus_text"] = difference(0.15)
    result["peer"] = peer(0.86)
    result["peer"]["rows"]["peer_words"] = predictor(0.6)
    names = ("peer_words", "peer_behavior", "peer_probe")
    for name, lead in zip(names, leads, strict=True):
        result["peer"]["rows"][name]["verbal_minus"] = difference(lead)
    result["peer"]["disagreement"]["beats_peer_and_neutral"] = probe
    return result


def causes(
    pattern: str = "tracks", p_random: float = 0.005, p_shuffled: float = 0.01
) -> dict[str, Any]:
    return {
        "place": {"site": "resid_post", "layer": 18, "position": "prompt_last"},
        "settings": {"layer": None, "position": None, "n_null": 199},
        "dissociation": {"pattern": pattern, "sentence": "Both moved."},
        "steering": {"behavior": {"p_random": p_random, "p_shuffled": p_shuffled}},
    }


def test_all_words_can_be_earned() -> None:
    found = earned(with_peer(), causes())
    assert list(found) == [
        "decodable", "beyond the text", "privileged", "introspection", "tracks", "causal",
    ]  # fmt: skip
    assert all(one.earned is True for one in found.values())
    assert all("`" not in one.reason for one in found.values())


@pytest.mark.parametrize("p_max", [0.05, 0.4, None])
def test_an_outcome_is_decodable_below_the_level_alone(p_max: float | None) -> None:
    result = with_peer()
    result["probe"]["p_max"] = p_max
    assert earned(result)["decodable"].earned is False
    assert f"p = {p_max}" in earned(result)["decodable"].reason


def test_a_gain_that_is_sure_and_small_is_not_beyond_the_text() -> None:
    result = with_peer()
    result["gap"]["beyond_text"] = {"estimate": 0.03, "ci": [0.01, 0.05]}
    assert earned(result)["beyond the text"].earned is True
    result["breakdown"]["stage"] = "not_beyond_text"
    withheld = earned(result)["beyond the text"]
    assert withheld.earned is False
    assert "under the margin of 0.08 (stacked gain 0.03 [0.01, 0.05])" in withheld.reason
    result["gap"]["beyond_text"] = {"estimate": 0.03, "ci": [-0.01, 0.07]}
    assert "do not beat" in earned(result)["beyond the text"].reason


def test_privileged_needs_both_readers() -> None:
    assert earned(with_peer(probe=False))["privileged"].earned is False
    reason = earned(with_peer())["privileged"].reason
    assert "109 items" in reason
    assert "some-other-model" in reason
    assert "0.62 [0.57, 0.67]" in reason  # the probe there
    assert "0.26 [0.21, 0.31] above the peer's probe" in reason


def test_a_subset_that_cannot_be_scored_tests_nothing() -> None:
    result = with_peer()
    result["peer"] = peer(0.86, reason="no positive items among 3")
    found = earned(result)["privileged"]
    assert found.earned is None
    assert "no positive items among 3" in found.reason


@pytest.mark.parametrize("short", range(3))
def test_introspection_needs_every_reading_of_the_peer(short: int) -> None:
    leads = [0.2, 0.2, 0.2]
    leads[short] = 0.04  # its interval holds 0
    found = earned(with_peer(leads=tuple(leads)))["introspection"]
    assert found.earned is False
    assert "0.04 [-0.01, 0.09]" in found.reason


def test_words_below_the_text_need_no_peer_to_be_withheld() -> None:
    result = task_result()
    result["gap"]["verbal_minus_text"] = difference(-0.2)
    found = earned(result)["introspection"]
    assert found.earned is False
    assert "-0.20 [-0.25, -0.15]" in found.reason


def test_what_was_not_tested_names_its_command() -> None:
    result = task_result()
    result["gap"]["verbal_minus_text"] = difference(0.2)
    found = earned(result)
    adds_peer = f"`selfprobe run --config {RUN}/config.yaml --out {RUN} --peer MODEL`"
    for word, command in (
        ("privileged", adds_peer),
        ("introspection", adds_peer),
        ("tracks", f"`selfprobe causal {RUN}`"),
        ("causal", f"`selfprobe causal {RUN}`"),
    ):
        assert found[word].earned is None
        assert command in found[word].reason
        assert str(found[word]).startswith(f"not tested | {word}: ")


def test_a_tested_claim_says_where() -> None:
    claim = earned(with_peer(), causes())["causal"]
    assert str(claim) == f"earned | causal ({claim.place}): {claim.reason}"
    assert claim.place


def test_a_peer_of_an_older_version_was_not_asked() -> None:
    result = with_peer()
    del result["peer"]["rows"]["peer_words"]
    found = earned(result)["introspection"]
    assert found.earned is None
    assert "the peer's words" in found.reason
    assert f"`selfprobe run --config {RUN}/config.yaml --out {RUN}`" in found.reason


@pytest.mark.parametrize("pattern", ["input moved", "report only", "behavior only", "undecided"])
def test_only_one_pattern_tracks(pattern: str) -> None:
    found = earned(with_peer(), causes(pattern))["tracks"]
    assert found.earned is False
    assert pattern in found.reason


def shifted(verdict: str = FITS_NEW, lead: float = 0.3, reason: str = "") -> dict[str, Any]:
    row = {"self_report": difference(0.4), "self_minus_other": difference(lead)}
    return causes("undecided") | {
        "shift": {"dose": 2.0, "probe": row | {"verdict": verdict, "reason": reason}}
    }


def test_the_shift_test_may_earn_it_where_no_pattern_is_told() -> None:
    shift = shifted()["shift"]
    for pattern, word in (("undecided", True), ("input moved", False), ("report only", False)):
        found = earned(with_peer(), causes(pattern) | {"shift": shift})["tracks"]
        assert found.earned is word
    reason = earned(with_peer(), shifted())["tracks"].reason
    assert "0.40 [0.35, 0.45], more than what is said of another by 0.30 [0.25, 0.35]" in reason


def test_the_shift_test_counts_along_the_probe_and_with_a_lead_over_the_other_report() -> None:
    # A report may repeat what a system message says, and verdicts are about the probe's direction.
    for change in ("system message", "diff_means"):
        elsewhere = {change: shifted()["shift"]["probe"], "probe": {"verdict": "undecided"}}
        found = earned(with_peer(), causes("undecided") | {"shift": elsewhere})["tracks"]
        assert found.earned is False
    # Rows without a lead are of the version that asked for none.
    older = shifted()
    del older["shift"]["probe"]["self_minus_other"]
    assert earned(with_peer(), older)["tracks"].earned is False
    assert earned(with_peer(), shifted(lead=0.04))["tracks"].earned is False
    open_question = earned(with_peer(), shifted("cannot tell", reason="no item flipped to 0"))
    assert open_question["tracks"].earned is False
    assert (
        "the shift test says: cannot tell (no item flipped to 0)" in open_question["tracks"].reason
    )


def test_a_claim_names_its_place_and_what_was_chosen_by_hand() -> None:
    found = earned(with_peer(), causes())
    at = "resid_post, layer 18, prompt_last"
    probe = with_peer()["probe"]
    selected = (
        f"{probe['site']}, layer {probe['layer']}, {probe['position']}, selected within folds"
    )
    for word in ("decodable", "beyond the text", "privileged"):
        assert found[word].place == selected
    assert (
        found["introspection"].place == "the answer slot of the self-prediction, fixed beforehand"
    )
    for word in ("tracks", "causal"):
        assert found[word].place == f"{at}, where the run's probe was selected"

    by_hand = causes() | {"settings": {"layer": 18, "position": "prompt_last"}}
    moved = earned(with_peer(), by_hand)
    assert moved["decodable"].place == selected
    chosen = "layer and position chosen by hand, which nothing corrects for"
    assert moved["causal"].place == moved["tracks"].place == f"{at}; {chosen}"
    by_hand["settings"]["position"] = None
    place = earned(with_peer(), by_hand)["causal"].place
    assert place == f"{at}; layer chosen by hand, which nothing corrects for"

    few = make_config({"tasks": "refusal", "layers": "18", "positions": "prompt_last"})
    narrowed = earned(with_peer(), causes(), few)
    for word in ("decodable", "beyond the text", "privileged", "tracks", "causal"):
        place = narrowed[word].place
        assert place is not None
        assert place.endswith("; layers and positions chosen by hand, which nothing corrects for")


def test_what_was_not_tested_has_no_place() -> None:
    result = task_result()
    result["gap"]["verbal_minus_text"] = difference(0.2)
    found = earned(result)
    assert {one.word for one in found.values() if one.place is None} == {
        *("privileged", "introspection", "tracks", "causal")
    }


def test_what_is_beyond_the_guards_is_not_interpreted() -> None:
    found = earned(with_peer(), causes() | {"guards": {"passed": False}})
    assert found["tracks"].earned is None
    assert found["causal"].earned is None


@pytest.mark.parametrize("p_values", [(0.05, 0.01), (0.01, 0.05)])
def test_causal_needs_both_nulls(p_values: tuple[float, float]) -> None:
    found = earned(with_peer(), causes("tracks", *p_values))["causal"]
    assert found.earned is False
    assert f"p = {p_values[0]} against random and {p_values[1]}" in found.reason


@pytest.mark.parametrize(("estimate", "moved"), [(0.4, "does not move"), (-0.4, "moves")])
def test_causal_needs_the_behavior_to_move_toward_the_outcome(estimate: float, moved: str) -> None:
    rows = {"behavior": {"estimate": estimate, "moved": moved}}
    steered = causes("tracks", 0.005, 0.005) | {"dissociation": {"rows": rows, "pattern": "none"}}
    assert earned(with_peer(), steered)["causal"].earned is False
    rows["behavior"] = {"estimate": 0.4, "moved": "moves"}
    assert earned(with_peer(), steered)["causal"].earned is True


def test_causal_is_not_tested_where_the_behavior_is_not_read() -> None:
    unread = causes()
    del unread["steering"]["behavior"]
    found = earned(with_peer(), unread | {"skipped": {"behavior": "first tokens tell nothing"}})
    assert found["causal"].earned is None
    assert "could not be read (first tokens tell nothing)" in found["causal"].reason
    assert found["tracks"].earned is True
    for estimate, word in ((0.02, None), (0.4, True)):
        unmoved = {"ablation": {"behavior": {"gap_before": difference(estimate)}}}
        claim = earned(with_peer(), causes() | unmoved)["causal"]
        assert claim.earned is word
    assert "does not tell its outcomes apart" in earned(with_peer(), causes() | {
        "ablation": {"behavior": {"gap_before": difference(-0.4)}}
    })["causal"].reason  # fmt: skip


def test_a_skipped_task_and_an_endpoint_earn_nothing() -> None:
    skipped = task_result() | {"skipped": "no positive items among 60"}
    words_alone = {"skipped": None, "activations": "an endpoint gives none"}
    for result, why in (
        (skipped, "(no positive items among 60); more or other items give it some (`--n`"),
        (words_alone, "without --endpoint"),
    ):
        found = earned(result)
        assert len(found) == 6
        assert all(one.earned is None and why in one.reason for one in found.values())


def test_a_run_is_read_with_what_was_intervened_on(tmp_path: Path) -> None:
    run, file = Run(RunFolder(tmp_path)), tmp_path / "causal.json"
    run.results = {"tasks": {"refusal": with_peer(), "difficulty": task_result("difficulty")}}
    run.config = make_config({"tasks": "refusal,difficulty"})

    def causal(task: str) -> bool | None:
        return {one.word: one.earned for one in claims(run, task)}["causal"]

    assert causal("refusal") is None
    file.write_text(json.dumps({"schema": SCHEMA, "tasks": {"refusal": causes()}}))
    assert causal("refusal") is True
    assert causal("difficulty") is None
    # Of another version: its numbers may mean something else.
    file.write_text(json.dumps({"schema": SCHEMA - 1, "tasks": {"refusal": causes()}}))
    assert causal("refusal") is None
    with pytest.raises(ValueError, match=r"'refusal' is not in causal.json, or of another version"):
        run.causal("refusal")
    file.write_text('{"tasks"')
    with pytest.raises(ValueError, match=r"causal.json is damaged .* `selfprobe causal"):
        claims(run, "refusal")


def test_claims_are_of_the_results_alone() -> None:
    result = with_peer()
    before = copy.deepcopy(result)
    claims_of(result, causes(), RUN, CONFIG)
    assert result == before

"""The diagnosis on simulated scores whose stage is known, and its verdicts on given intervals."""

import json

import numpy as np
import pytest

from experiments.breakdown import STAGES, Breakdown, diagnose
from experiments.inequalities import Comparisons, Evidence, groups_needed, three_valued
from experiments.scored import Scored
from probes import Interval

N_GROUPS = 300
GROUP_SIZE = 2


def interval(low: float, high: float, n_groups: int = 100) -> Interval:
    return Interval((low + high) / 2, low, high, "test", n_groups, False)


def planted(stage: str, seed: int = 0) -> dict[str, np.ndarray]:
    """Scores and answers for a known stage: a text signal, a hidden one, and where the hidden one gets to."""
    rng = np.random.default_rng(seed)
    n = N_GROUPS * GROUP_SIZE
    groups = np.repeat(np.arange(N_GROUPS), GROUP_SIZE)
    seen, hidden = rng.normal(size=(2, n))
    outcome = (seen + 1.5 * hidden + rng.normal(size=n) > 0).astype(int)

    def noisy(signal: np.ndarray, noise: float = 0.5) -> np.ndarray:
        return signal + noise * rng.normal(size=n)

    knows, text = seen + 1.5 * hidden, noisy(seen)
    task = noisy(seen if stage == "not_beyond_text" else knows)
    reaches = stage not in ("not_beyond_text", "not_transported")
    report = noisy(knows if reaches else seen)
    words = noisy(seen, 2.0) if stage == "not_read_out" else report + 0.1 * rng.normal(size=n)
    answer = (words > (2.5 if stage == "miscalibrated" else 0.0)).astype(float)
    if stage == "unparsed":
        answer[rng.random(n) < 0.6] = np.nan
    return {
        "outcome": outcome,
        "groups": groups,
        "task_scores": task,
        "text_scores": text,
        "report_scores": report,
        "transferred_scores": noisy(report),
        "readout_margin": words,
        "parsed_answer": answer,
    }


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "undetermined"])
def test_planted_stage_is_found(stage: str) -> None:
    breakdown = diagnose(**planted(stage))
    assert breakdown.stage == stage, breakdown.to_frame()
    assert breakdown.groups_needed is None


def test_few_groups_leave_it_undetermined_and_say_how_many_would_do() -> None:
    arrays = {name: values[:60] for name, values in planted("faithful").items()}
    breakdown = diagnose(**arrays)
    assert breakdown.stage == "undetermined"
    assert breakdown.groups_needed is not None
    assert breakdown.groups_needed > 30
    assert breakdown.open_question in breakdown.sentence
    assert str(breakdown.groups_needed) in breakdown.sentence


def test_partly_lost_on_the_way_is_not_transported() -> None:
    arrays = planted("faithful")
    rng = np.random.default_rng(1)
    for name in ("report_scores", "transferred_scores"):
        arrays[name] = arrays[name] + 2.0 * rng.normal(size=arrays[name].shape)
    breakdown = diagnose(**arrays)
    assert breakdown.stage == "not_transported"
    assert "partly lost" in breakdown.sentence
    assert breakdown.evidence[3].verdict == "partly lost"


def test_what_no_probe_at_the_slot_reads_is_lost() -> None:
    breakdown = diagnose(**planted("not_transported"))
    assert [row.verdict for row in breakdown.evidence[:4]] == [
        "beats",
        "does not beat",
        "does not beat",
        "lost",
    ]


@pytest.mark.parametrize(
    ("noise_of", "best"), [("transferred_scores", "slot"), ("report_scores", "transferred")]
)
def test_the_words_are_held_against_the_better_probe_at_the_slot(noise_of: str, best: str) -> None:
    arrays = planted("not_read_out")
    rng = np.random.default_rng(2)
    arrays[noise_of] = arrays[noise_of] + 3.0 * rng.normal(size=arrays[noise_of].shape)
    breakdown = diagnose(**arrays)
    assert breakdown.best_at_slot == best
    assert Breakdown.from_json(breakdown.to_json()).best_at_slot == best
    assert breakdown.stage == "not_read_out"
    assert Breakdown("undetermined", "", (), None).best_at_slot is None


def test_a_loss_stands_though_what_is_left_at_the_slot_is_open() -> None:
    """Of two conditions joined by "or" one that holds is enough."""
    arrays = {name: values[:100] for name, values in planted("not_transported", seed=1).items()}
    breakdown = diagnose(**arrays)
    verdicts = [row.verdict for row in breakdown.evidence[:4]]
    assert verdicts == ["beats", "undecided", "undecided", "lost"]
    assert breakdown.stage == "not_transported"
    assert "wholly or in part" in breakdown.sentence


@pytest.mark.parametrize(
    ("low", "high", "kept", "verdict"),
    [
        (-0.05, 0.05, True, "as good as"),
        (-0.20, -0.05, True, "partly lost"),
        (-0.20, -0.05, False, "lost"),
        (-0.18, -0.03, True, "undecided"),  # by more than counts, but half of it is not sure
        (-0.14, -0.01, True, "undecided"),  # short for certain, and perhaps by less than counts
        (-0.20, 0.05, True, "undecided"),
    ],
)
def test_what_reaches_the_slot_is_three_valued(
    low: float, high: float, kept: bool, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gap = interval(low, high, n_groups=50)
    monkeypatch.setattr(Comparisons, "difference", lambda self, a, b: gap)
    path = Comparisons(np.array([0, 1]), np.array([0, 1]), None, 0.08, 0)
    words = Scored.fixed(np.zeros(2))

    def carried() -> Evidence:
        return path.carried("a", words, words, is_there=True, is_kept=kept, is_lost=False)

    row = carried()
    assert row.verdict == verdict
    assert (row.groups_needed is None) == (verdict != "undecided")
    if row.groups_needed is not None:
        half = (high - low) / 2 * np.sqrt(50 / (row.groups_needed + 1))
        gap = interval(row.estimate - half, row.estimate + half)
        assert carried().verdict != "undecided"


def test_no_readable_answer_at_all_is_unparsed() -> None:
    arrays = planted("faithful")
    arrays["parsed_answer"] = np.full(arrays["outcome"].shape, np.nan)
    breakdown = diagnose(**arrays)
    assert breakdown.stage == "unparsed"
    assert json.dumps(breakdown.to_json(), allow_nan=False)


def test_words_as_good_as_a_slot_that_lost_a_little_are_no_stage_and_the_sentence_says_so() -> None:
    """Carried down to 0.08 less than the task probe twice over: each step is small, the whole is not."""
    arrays = planted("faithful")
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(2, arrays["outcome"].size))
    for name in ("report_scores", "transferred_scores"):
        arrays[name] = arrays[name] + 0.75 * noise[0]
    arrays["readout_margin"] = arrays["report_scores"] + 1.0 * noise[1]
    arrays["parsed_answer"] = (arrays["readout_margin"] > 0).astype(float)
    breakdown = diagnose(**arrays)
    kept = breakdown.evidence[-1]
    assert kept.verdict == "falls short", breakdown.to_frame()
    assert breakdown.stage == "undetermined"
    assert breakdown.sentence.startswith("No stage's conditions hold")


def test_an_undecided_step_on_the_way_is_undetermined() -> None:
    arrays = {name: values[:100] for name, values in planted("faithful").items()}
    rng = np.random.default_rng(4)
    for name in ("report_scores", "transferred_scores"):
        arrays[name] = arrays[name] + 0.9 * rng.normal(size=arrays[name].shape)
    breakdown = diagnose(**arrays)
    assert breakdown.evidence[3].verdict == "undecided", breakdown.to_frame()
    assert breakdown.stage == "undetermined"


def test_inverted_words_are_not_read_out() -> None:
    arrays = planted("faithful")
    arrays["readout_margin"] = -arrays["readout_margin"]
    breakdown = diagnose(**arrays)
    assert breakdown.stage == "not_read_out"
    assert "inverted" in breakdown.sentence
    upright = next(
        row for row in breakdown.evidence if row.name == "words rank the right way round"
    )
    assert (upright.verdict, upright.high < 0.5) == ("under", True)
    assert "inverted" not in diagnose(**planted("not_read_out")).sentence


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.01, 0.20, "beats"),
        (-0.05, 0.05, "does not beat"),
        (0.01, 0.07, "does not beat"),  # both hold: significant, but smaller than counts
        (-0.02, 0.12, "undecided"),
    ],
)
def test_beats_is_three_valued(low: float, high: float, verdict: str) -> None:
    row = three_valued("a", "q", interval(low, high), 0.08, beats_question=True)
    assert row.verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.05, 0.05, "as good as"),
        (-0.07, -0.01, "as good as"),  # significantly worse, but by less than counts
        (-0.20, -0.05, "falls short"),
        (-0.20, 0.05, "undecided"),
    ],
)
def test_as_good_is_three_valued(low: float, high: float, verdict: str) -> None:
    row = three_valued("a", "q", interval(low, high), 0.08, beats_question=False)
    assert row.verdict == verdict


@pytest.mark.parametrize("beats_question", [True, False])
@pytest.mark.parametrize("center", [-0.10, -0.03, 0.02, 0.06])
def test_the_groups_asked_for_would_decide(beats_question: bool, center: float) -> None:
    wide = interval(center - 0.2, center + 0.2, n_groups=50)
    needed = groups_needed(wide, 0.08, beats_question=beats_question)
    half = 0.2 * np.sqrt(50 / (needed + 1))
    narrow = interval(center - half, center + half)
    row = three_valued("a", "q", narrow, 0.08, beats_question=beats_question)
    assert row.verdict != "undecided"


def test_round_trip_through_json() -> None:
    breakdown = diagnose(**planted("not_read_out"))
    again = Breakdown.from_json(breakdown.to_json())
    assert (again.stage, again.sentence) == (breakdown.stage, breakdown.sentence)
    assert again.open_question == breakdown.open_question
    for old, new in zip(breakdown.evidence, again.evidence, strict=True):
        assert (old.name, old.verdict) == (new.name, new.verdict)
        assert (new.estimate, new.low, new.high) == pytest.approx(
            (old.estimate, old.low, old.high), abs=1e-6
        )
    assert len(breakdown.to_frame()) == len(breakdown.evidence)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("outcome", np.full(N_GROUPS * GROUP_SIZE, 2), "outcome: must be one row of 0 and 1"),
        ("task_scores", np.zeros(3), "task_scores: 3 items"),
        ("text_scores", np.full(N_GROUPS * GROUP_SIZE, np.nan), "text_scores: holds NaN"),
        ("parsed_answer", np.zeros(5), "parsed_answer: shape"),
        ("groups", np.zeros(5), "groups: shape"),
    ],
)
def test_bad_arrays_are_named(name: str, value: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        diagnose(**{**planted("faithful"), name: value})

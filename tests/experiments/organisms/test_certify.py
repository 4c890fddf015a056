"""The certification: what is right, that numbers depend on seeds alone, and (slow) that the bars are met."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.breakdown import STAGES, Breakdown
from experiments.cli import _status
from experiments.inequalities import Rules
from experiments.organisms import certify as certify_module
from experiments.organisms.certificate import Certificate, trained_rows
from experiments.organisms.certify import COLUMNS, Plan, certify, sizes_of
from experiments.organisms.conditions import diagnosed, graded, large, standard, variants
from experiments.organisms.planted import PLANTED_STAGES
from experiments.organisms.scored_simulation import Scorer
from experiments.organisms.simulate import simulate
from experiments.progress import Advance


def breakdown(stage: str) -> Breakdown:
    return Breakdown(stage, "", (), None)


def test_wrong_is_another_stage_and_nothing_else() -> None:
    assert diagnosed("faithful", breakdown("faithful")) == "right"
    assert diagnosed("faithful", breakdown("unparsed")) == "wrong"
    assert diagnosed("faithful", breakdown("undetermined")) == "undetermined"
    assert diagnosed({"faithful", "unparsed"}, breakdown("unparsed")) == "right"


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    return Scorer()


@pytest.mark.parametrize("stage", PLANTED_STAGES)
def test_a_planted_stage_is_found(stage: str, scorer: Scorer) -> None:
    """Two seeds a stage; how often it is found is what the slow test asks."""
    drawn = (simulate(stage, 600, n_layers=2, seed=seed) for seed in (0, 1))
    found = {scorer.score(one).diagnose().stage for one in drawn}
    assert stage in found
    assert found <= {stage, "undetermined"}


def test_fits_that_are_remembered_are_those_that_would_be_made() -> None:
    scorer = Scorer(n_regroupings=2)
    first, second = (
        scorer.score(simulate(stage, 60, n_layers=2))
        for stage in ("not_read_out", "not_transported")
    )
    assert second.task is first.task
    assert second.slot is not first.slot
    anew = Scorer(n_regroupings=2).score(simulate("not_transported", 60, n_layers=2))
    assert np.array_equal(second.slot.scores, anew.slot.scores)
    assert np.array_equal(second.moved.scores, anew.moved.scores)


def test_a_loss_is_right_by_the_values_of_the_population() -> None:
    right = {(one.name, one.multiple): set(one.right) for one in graded((0.0, 0.5, 1.0, 2.0))}
    assert right["not_read_out", 0.0] == {"faithful"}
    assert right["not_read_out", 0.5] == {"faithful", "not_read_out"}
    assert right["not_read_out", 1.0] == right["not_read_out", 2.0] == {"not_read_out"}
    assert right["faithful", 0.0] == {"not_beyond_text"}
    assert right["faithful", 1.0] == {"faithful"}
    assert all(right["not_beyond_text", multiple] == {"not_beyond_text"} for multiple in (0.0, 2.0))


@pytest.mark.parametrize("delta", [0.05, 0.08])
def test_graded_losses_are_multiples_of_the_margin(delta: float) -> None:
    plants = {one.name: one.simulate(60, 0).plant for one in graded((2.0,), Rules(delta=delta))}
    assert plants["not_transported"].slot == pytest.approx(0.85 - 2 * delta)
    assert plants["not_read_out"].words == pytest.approx(0.85 - 2 * delta)
    assert plants["faithful"].text == pytest.approx(0.85 - 2 * delta)
    assert plants["not_beyond_text"].task == pytest.approx(0.5 + 2 * delta)
    assert plants["unparsed"].parse_rate == pytest.approx(0.8 - 0.2)
    assert plants["miscalibrated"].criterion == pytest.approx(1.0)


def test_variants_are_what_their_names_say() -> None:
    by_name = {one.name: one for one in variants(seed=1)}
    inverted = by_name["inverted words"].simulate(600, 0)
    assert (
        inverted.margin[inverted.outcome == 1].mean()
        < inverted.margin[inverted.outcome == 0].mean()
    )
    copies = by_name["30 groups of near-copies"]
    assert copies.right == {PLANTED_STAGES[1]}
    data = copies.simulate(600, 0)
    assert len(np.unique(data.groups)) == 30
    within = np.mean([data.task[data.groups == g, -1].var(axis=0) for g in range(30)])
    assert within < 0.2 * data.task[:, -1].var(axis=0).mean()
    shuffled, before = by_name["shuffled outcome"].simulate(600, 0), standard()[-1].simulate(600, 0)
    assert shuffled.outcome.sum() == before.outcome.sum()
    assert np.array_equal(shuffled.task, before.task)
    assert abs(np.corrcoef(shuffled.outcome, before.outcome)[0, 1]) < 0.15
    assert {one.name for one in large()} == set(PLANTED_STAGES)


SMALL = Plan(seeds=1, graded_seeds=1, sizes=((60, 0.08),), multiples=(4.0,))


class Counting:
    """A reporter that counts what is done."""

    def __init__(self) -> None:
        self.done: list[int] = []

    def stage(self, name: str, total: int) -> "Counting":
        return self

    def __enter__(self) -> Advance:
        return self.done.append

    def __exit__(self, *error: object) -> None:
        return None


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    out = tmp_path_factory.mktemp("certificate")
    return out, certify(SMALL, out, workers=1)


def test_a_stopped_certification_goes_on_with_the_same_numbers(
    small: tuple[Path, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = small
    lines = (out / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "rows.jsonl").write_text(lines[-1] + lines[0][:40])
    drawn = []
    monkeypatch.setattr(
        certify_module, "_with_rows", lambda job: (drawn.append(job) or job, job.rows())
    )
    reporter = Counting()
    again = certify(SMALL, tmp_path, workers=1, reporter=reporter)
    pd.testing.assert_frame_equal(again, whole)
    assert len(drawn) == 1
    assert reporter.done == [1, 1]


def test_what_other_versions_have_made_is_not_used(
    small: tuple[Path, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(small[0] / "rows.jsonl", tmp_path)
    jobs = SMALL.jobs
    monkeypatch.setattr(certify_module, "_made_by", lambda: "another version")
    drawn = []
    monkeypatch.setattr(certify_module, "_with_rows", lambda job: (drawn.append(job) or job, []))
    certify(SMALL, tmp_path, workers=1)
    assert len(drawn) == len(jobs)


@pytest.mark.slow
def test_processes_give_the_same_numbers(small: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    pd.testing.assert_frame_equal(certify(SMALL, tmp_path, workers=2), small[1])


def made_up(n: int, suite: str, name: str, *diagnosed_as: str) -> list[dict[str, object]]:
    kinds = {"r": "right", "w": "wrong", "u": "undetermined"}
    stages = {"r": name if name in STAGES else "not_read_out", "w": "unparsed", "u": "undetermined"}
    return [
        {"n": n, "delta": 0.08, "seed": seed, "suite": suite, "name": name, "multiple": None}
        | {"stage": stages[one], "diagnosed": kinds[one], "open": None}
        for seed, one in enumerate("".join(diagnosed_as))
    ]


def test_bars_are_those_of_the_certificate() -> None:
    table = pd.DataFrame(
        [
            *made_up(600, "standard", "faithful", "r" * 97, "u" * 3),
            *made_up(600, "standard", "not_read_out", "r" * 91, "w" * 5, "u" * 4),
            *made_up(600, "variant", "inverted words", "r" * 93, "w" * 7),
            *made_up(600, "variant", "shuffled outcome", "r" * 93, "w" * 7),
            *made_up(60, "standard", "faithful", "u" * 91, "w" * 9),
        ],
        columns=list(COLUMNS),
    )
    certificate = Certificate(table)
    missed = {bar.name: bar.share for bar in certificate.bars() if not bar.is_met}
    where = "n = 600, d = 0.08"
    assert missed == pytest.approx(
        {
            f"{where}: right, all stages": 0.94,
            f"{where}: wrong, all stages": 0.025,
            f"{where}: right, not_read_out": 0.91,
            f"{where}: wrong, not_read_out": 0.05,
            f"{where}: wrong, shuffled outcome": 0.07,
            "n = 60, d = 0.08: wrong, faithful": 0.09,
        }
    )
    confusion = certificate.confusion(600, 0.08)
    assert confusion.loc["not_read_out"].to_dict()["unparsed"] == 5
    assert confusion.to_numpy().sum() == 200
    assert any("missed: n = 60" in line for line in certificate.lines())


def test_files_of_a_certificate(small: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    certificate = Certificate(small[1])
    certificate.write(tmp_path)
    written = json.loads((tmp_path / "certificate.json").read_text())
    assert {row["suite"] for row in written["conditions"]} == {"standard", "large", "graded"}
    table = pd.read_csv(tmp_path / "certificate.csv")
    assert np.allclose(table[["right", "wrong", "undetermined"]].sum(axis=1), 1.0)
    assert (tmp_path / "certificate.svg").stat().st_size > 5000
    empty = Certificate(small[1][:0])
    assert empty.to_json()["conditions"] == []
    assert empty.lines() == []


def test_bad_plans_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="n: 20 items are too few"):
        Plan(sizes=((20, 0.08),))
    with pytest.raises(ValueError, match=r"delta: 0\.7 is no margin"):
        Plan(sizes=((60, 0.7),))
    with pytest.raises(ValueError, match=r"effect: .* more than"):
        Plan(multiples=(9.0,))
    with pytest.raises(ValueError, match="seeds: -1 is negative"):
        Plan(seeds=-1)
    with pytest.raises(ValueError, match="delta: 2 of them for 3 n"):
        sizes_of([60, 600, 1600], [0.08, 0.05])
    with pytest.raises(ValueError, match="is no STAGE=RUN"):
        trained_rows(["honest=runs/x"])
    assert sizes_of(None, None) == Plan().sizes
    assert sizes_of([600, 1600], [0.08]) == ((600, 0.08), (1600, 0.08))


@pytest.mark.slow
def test_the_bars_are_met(tmp_path: Path) -> None:
    """30 seeds a stage and variant: shares of single ones get the room that chance needs."""
    plan = Plan(seeds=30, graded_seeds=0)
    certificate = Certificate(certify(plan, tmp_path))
    shares = {bar.name: bar for bar in certificate.bars()}
    for n, delta in plan.sizes[1:]:
        assert shares[f"n = {n}, d = {delta:g}: right, all stages"].is_met
        assert shares[f"n = {n}, d = {delta:g}: wrong, all stages"].is_met
    room = 3 / 30
    for bar in shares.values():
        if ": wrong" in bar.name:
            assert bar.share <= bar.limit + room, bar
        else:
            assert bar.share >= bar.limit - room, bar


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["selfprobe", "organisms", "certify", *map(str, arguments)])
    return _status()


def test_the_command_prints_and_writes_the_certificate(
    small: tuple[Path, pd.DataFrame],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All rows are there already: nothing is drawn anew."""
    shutil.copy(small[0] / "rows.jsonl", tmp_path)
    options = ["--seeds", 1, "--effect-seeds", 1, "--n", 60, "--effects", 4, "--out", tmp_path]
    assert command(monkeypatch, *options) == 0
    shown = capsys.readouterr().out
    assert "n = 60, margin 0.08: planted (rows) against diagnosed" in shown
    assert "all 6 bars are met" in shown or "missed" in shown
    assert command(monkeypatch, *options, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "certificate.json").read_text())


def test_rows_of_trained_organisms_stand_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Finished:
        def __init__(self, folder: str) -> None:
            self.stage = Path(folder).name

        def breakdown(self) -> Breakdown:
            return breakdown(self.stage)

    monkeypatch.setattr("experiments.organisms.certificate.load_run", Finished)
    nothing = ["--seeds", 0, "--effect-seeds", 0, "--out", tmp_path]
    trained = ["--trained", "faithful=runs/faithful", "--trained", "unparsed=runs/undetermined"]
    assert command(monkeypatch, *nothing, *trained) == 0
    shown = capsys.readouterr().out
    assert "trained to be faithful: faithful, right (faithful)" in shown
    assert "trained to be unparsed: undetermined, undetermined (undetermined)" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--effects", "0,x"], "effects: '0,x' is no list of numbers"),
        (["--n", 10], "n: 10 items are too few"),
        (["--workers", 0], "workers: 0 is not positive"),
        (["--trained", "faithful=nowhere"], "nowhere"),
        (["--out", __file__], "out: cannot make the folder"),
    ],
)
def test_bad_options_are_named_before_any_work(
    arguments: list[object],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []

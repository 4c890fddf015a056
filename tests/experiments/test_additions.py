"""What is given to a run that was made without it: done by the same command, and nothing else done again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from experiments import Experiment, load_run
from experiments.config import make_config, read_config
from experiments.run_folder import SCHEMA, RunFolder
from experiments.stages import Stages
from experiments.tasks import TASKS
from tests.conftest import make_tiny_model
from tests.experiments import parity

SETTINGS: dict[str, Any] = {"n": 40, "words": "short", "paraphrases": 1}
ASKING = {
    "behavior": "label_behavior",
    "task activations": "_capture_task",
    "self-predictions": "_ask",
    "output side": "_read_output_side",
    "random weights": "_capture_random_weights",
}
"""Stages that ask the model -> their work."""


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, parity.ParityTask.name, parity.ParityTask)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A model and a peer, as folders."""
    folder = tmp_path_factory.mktemp("models")
    peer = make_tiny_model("gpt2")
    for part in (peer.module, peer.tokenizer):
        part.save_pretrained(folder / "peer")
    return str(parity.save_tiny_model(folder / "model")), str(folder / "peer")


@pytest.fixture(scope="module")
def plain(models: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run without a peer and without other contexts."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(TASKS, parity.ParityTask.name, parity.ParityTask)
        return (
            Experiment("parity", models[0], **SETTINGS)
            .run(tmp_path_factory.mktemp("runs") / "plain")
            .path
        )


@pytest.fixture
def copied(plain: Path, tmp_path: Path) -> Path:
    shutil.copytree(plain, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def asks_nobody_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that was asked before and is asked again fails the test."""

    def again(self: Stages) -> None:
        raise AssertionError("the model is asked again")

    for work in ASKING.values():
        monkeypatch.setattr(Stages, work, again)


def files(folder: Path, *but: str) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not str(path.relative_to(folder)).startswith(but)
    }


ANALYZED = (
    *(
        "results",
        "scores.csv",
        "probes",
        "directions.json",
        "locate.json",
        "figures",
        "report.html",
    ),
    *("manifest.json", "config.yaml", ".lock"),
)


@pytest.mark.usefixtures("asks_nobody_again")
def test_a_peer_and_other_contexts_are_added_to_a_finished_run(
    copied: Path, models: tuple[str, str], tmp_path: Path
) -> None:
    before = files(copied, *ANALYZED)
    run = load_run(copied)
    missing = run.locate().skipped
    assert set(missing) == {"other_framing", "input_question", "peer"}
    adds = {one.word: one.reason for one in run.claims()}["privileged"]
    assert f"`selfprobe run --config {copied}/config.yaml --out {copied} --peer MODEL`" in adds

    added = {"peer": models[1], "other_contexts": True}
    # As the command does that the claim names: the settings of the folder, and what is new.
    asked = make_config(read_config(copied / "config.yaml") | added)
    run = Experiment.from_config(asked).run(copied)
    after = files(copied, *ANALYZED)
    assert {name: after[name] for name in before} == before
    new = {
        name.split("/")[0] if "cache" not in name else "/".join(name.split("/")[:2])
        for name in set(after) - set(before)
    }
    assert new == {
        *("peer_behavior.jsonl", "peer_self_predictions.jsonl", "other_contexts.jsonl"),
        *("cache/peer", "cache/other_framing", "cache/input_question"),
    }
    assert run.config.peer == models[1]
    assert run.locate().skipped == {}
    result = run.result()
    assert set(result["contexts"]) == {"other_framing", "input_question"}
    for rows in result["contexts"].values():
        assert {"auroc", "ci", "estimand", "menu_mass", "verbal_minus"} <= set(rows["verbal"])
        assert {"auroc", "ci", "layer", "probe_minus"} <= set(rows["probe"])
    assert set(run.transfer()["trained_on"]) == {
        *("task", "self_prediction", "quote_last", "other_framing", "input_question")
    }
    assert {"auroc", "verbal_minus"} <= set(result["peer"]["rows"]["peer_words"])
    claims = {one.word: one for one in run.claims()}
    assert claims["introspection"].earned is False
    # The peer is given again, or left alone: a run without it would be another.
    with pytest.raises(ValueError, match=r"another run \(peer: .* give the same again"):
        Experiment("parity", models[0], **SETTINGS).run(copied)
    with pytest.raises(ValueError, match=r"another run \(peer: "):
        Experiment(
            "parity", models[0], **SETTINGS | {"peer": "smollm2-135m", "other_contexts": True}
        ).run(copied)


@pytest.mark.slow
def test_what_was_added_is_what_a_run_with_it_has(
    copied: Path, models: tuple[str, str], tmp_path: Path
) -> None:
    added = SETTINGS | {"other_contexts": True}
    at_once = Experiment("parity", models[0], **added).run(tmp_path / "at-once").path
    Experiment("parity", models[0], **added).run(copied)
    for name in (
        *("config.yaml", "other_contexts.jsonl", "results.json", "results.csv", "scores.csv"),
        *("directions.json", "locate.json", "report.html"),
    ):
        assert (copied / name).read_bytes() == (at_once / name).read_bytes(), name


@pytest.mark.usefixtures("asks_nobody_again")
def test_a_run_made_before_there_was_a_location_gets_one(
    copied: Path, models: tuple[str, str]
) -> None:
    expected = (copied / "locate.json").read_bytes()
    older = json.loads((copied / "manifest.json").read_text())
    del older["finished"]["locate"]
    (copied / "manifest.json").write_text(json.dumps(older))
    (copied / "locate.json").unlink()
    # An older version's settings do not name the newer ones.
    config = (copied / "config.yaml").read_text().replace("other_contexts: false\n", "")
    (copied / "config.yaml").write_text(config)
    before = files(copied, "manifest.json", "report.html", "figures", ".lock")
    with pytest.raises(
        ValueError, match=r"holds no locate.json; `selfprobe run --config .* adds it"
    ):
        load_run(copied).locate()
    assert load_run(copied).breakdown().stage
    Experiment("parity", models[0], **SETTINGS).run(copied)
    after = files(copied, "manifest.json", "report.html", "figures", ".lock", "locate.json")
    assert before == after
    assert (copied / "locate.json").read_bytes() == expected


@pytest.mark.parametrize(
    ("lost", "n_analyzed"),
    [
        ("behavior", 4),
        ("peer words", 4),
        ("other contexts", 4),
        ("contrast", 3),
        ("directions", 2),
        ("locate", 1),
        ("report", 0),
    ],
)
def test_only_what_rests_on_a_stage_is_done_again(
    tmp_path: Path, lost: str, n_analyzed: int
) -> None:
    folder = RunFolder(tmp_path)
    config = make_config({"tasks": "refusal", "peer": "another"})
    for stage, outputs in folder.outputs.items():
        for path in outputs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"schema": SCHEMA, "tasks": {}}))
        folder.mark_finished(stage, 1.0)
    assert folder.unfinished(config) == []
    folder.forget([lost])
    analyses = ["contrast", "directions", "locate", "report"]
    assert folder.unfinished(config) == [lost, *analyses[len(analyses) - n_analyzed :]]
    folder.forget(["items"])
    assert folder.unfinished(config) == list(folder.outputs)


def test_results_of_another_version_are_named_and_are_to_be_made_anew(copied: Path) -> None:
    folder = RunFolder(copied)
    assert folder.unfinished(folder.read_config()) == []
    other = json.loads((copied / "results.json").read_text()) | {"schema": 0}
    other["created_with"]["selfprobe"] = "0.0.9"
    (copied / "results.json").write_text(json.dumps(other))
    with pytest.raises(
        ValueError, match=r"another version \(selfprobe 0.0.9, schema 0; .* same command"
    ):
        load_run(copied)
    todo = folder.unfinished(folder.read_config())
    assert todo == ["contrast", "directions", "locate", "report"]


@pytest.mark.slow
def test_a_run_that_stopped_before_it_was_asked_says_so_and_goes_on(
    copied: Path, models: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = json.loads((copied / "manifest.json").read_text())
    for stage in ("self-predictions", "contrast", "directions", "locate", "report"):
        del finished["finished"][stage]
    (copied / "manifest.json").write_text(json.dumps(finished))
    for name in ("self_predictions.jsonl", "results.json"):
        (copied / name).unlink()
    shutil.rmtree(copied / "cache" / "self_prediction")
    with pytest.raises(
        ValueError,
        match=r"not finished \(no results.json\); run the same command again, or `selfprobe run",
    ):
        load_run(copied)

    def again(self: Stages) -> None:
        raise AssertionError("the model is asked again")

    for stage, work in ASKING.items():
        if stage != "self-predictions":
            monkeypatch.setattr(Stages, work, again)
    run = Experiment("parity", models[0], **SETTINGS).run(copied)
    assert run.locate().loss["stage"] == run.breakdown().stage


def test_a_location_computed_anew_is_the_one_of_the_run(plain: Path) -> None:
    from experiments.locate import locate

    run = load_run(plain)
    anew = locate(run)
    assert anew == run.locate()
    assert anew.scores is not None
    assert anew.scores.task.shape == (3, run.config.regroupings, run.result()["n_items"])
    # At the last layer the lens reads the log-odds themselves, but for how activations are stored.
    assert anew.by_layer[-1]["words"] == pytest.approx(run.result()["verbal"]["auroc"], abs=0.02)

"""Runs that lack something: what is missing is said in one line, with what adds it to the same run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments import Experiment, load_run
from experiments.causal import CausalSettings, causal
from experiments.locate import locate
from experiments.stages import Stages
from experiments.tasks import TASKS
from tests.experiments import parity

SETTINGS: dict[str, Any] = {
    "n": 40,
    "words": "short",
    "paraphrases": 1,
    "other_contexts": True,
}
TASK_NAMES = ("parity", "silent")
"""The second has one class of outcomes alone, and is skipped."""
QUICK = CausalSettings(n_null=40, n_items=20, n_null_items=4)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for task in (parity.ParityTask, parity.SilentTask):
        monkeypatch.setitem(TASKS, task.name, task)


def no_figures(*_: object) -> dict[str, dict[str, Path]]:
    return {name: {} for name in TASK_NAMES}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lacking")
    model = parity.save_tiny_model(folder / "model")
    with pytest.MonkeyPatch.context() as patched:
        for task in (parity.ParityTask, parity.SilentTask):
            patched.setitem(TASKS, task.name, task)
        # Which take the longest, and which nothing here looks at.
        for name in ("write_figures", "write_direction_figures"):
            patched.setattr(f"experiments.finished.{name}", no_figures)
        return Experiment(TASK_NAMES, str(model), **SETTINGS).run(folder / "run").path


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def lose(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    held = json.loads(path.read_text())
    change(held)
    path.write_text(json.dumps(held))


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011
        work()
    message = str(refusal.value)
    assert "\n" not in message
    return message


def same(folder: Path) -> str:
    return f"`selfprobe run --config {folder}/config.yaml --out {folder}`"


@pytest.mark.slow
def test_a_run_of_before_there_were_other_contexts_gets_them_by_the_command_that_is_named(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = locate(load_run(copied), "parity")
    lose(copied, "other_contexts.jsonl", "cache/other_framing", "cache/input_question")
    rewrite(copied / "manifest.json", lambda held: held["finished"].pop("other contexts"))
    run = load_run(copied)
    message = refused(lambda: locate(run, "parity"))
    assert message == (
        f"{copied} holds no other_contexts.jsonl; {same(copied)} adds it and keeps what is finished"
    )

    def again(self: Stages) -> None:
        raise AssertionError("the model is asked again")

    for work in ("label_behavior", "_capture_task", "_ask", "_read_output_side"):
        monkeypatch.setattr(Stages, work, again)
    added = Experiment.from_config(run.config).run(copied)
    assert locate(added, "parity") == expected


@pytest.mark.parametrize(
    ("lost", "of"),
    [
        ("other_contexts.jsonl", ["locate"]),
        ("self_predictions.jsonl", ["locate"]),
        ("cache/self_prediction", ["locate"]),
        ("directions.json", ["locate"]),
        ("items.jsonl", ["locate", "causal"]),
        ("behavior.jsonl", ["locate", "causal"]),
        ("cache/task", ["locate", "causal"]),
    ],
)
def test_what_work_needs_and_the_folder_lacks_is_named(
    copied: Path, lost: str, of: list[str]
) -> None:
    lose(copied, lost)
    run = load_run(copied)
    work: dict[str, Callable[[], object]] = {
        "locate": lambda: locate(run, "parity"),
        "causal": lambda: causal(run, "parity", QUICK),
    }
    for name in of:
        message = refused(work[name])
        assert message.startswith(f"{copied} holds no {lost}; {same(copied)} adds it")
    # What was computed is there all the same.
    assert run.locate("parity").loss["stage"] == run.breakdown("parity").stage
    assert run.claims("parity")[0].earned is not None


def test_a_run_without_a_peer_and_interventions_names_both_commands(copied: Path) -> None:
    run = load_run(copied)
    found = {one.word: one for one in run.claims("parity")}
    peer = f"`selfprobe run --config {copied}/config.yaml --out {copied} --peer MODEL` tests it"
    assert (found["privileged"].earned, found["privileged"].place) == (None, None)
    assert peer in found["privileged"].reason
    for word in ("tracks", "causal"):
        assert found[word].earned is None
        assert f"`selfprobe causal {copied}` tests it" in found[word].reason
    assert f"`selfprobe causal {copied}`" in refused(lambda: run.causal("parity"))


def test_a_skipped_task_says_why_and_what_would_give_it_scores(copied: Path) -> None:
    run = load_run(copied)
    why = "was skipped (no positive items among 20); more or other items give it some"
    for work in (
        lambda: locate(run, "silent"),
        lambda: run.locate("silent"),
        lambda: run.breakdown("silent"),
        lambda: run.causal("silent"),
        lambda: causal(run, "silent", QUICK),
    ):
        assert why in refused(work)
    for one in run.claims("silent"):
        assert one.earned is None
        assert why in one.reason


@pytest.mark.parametrize("lost", ["model", "weights"])
def test_a_manifest_that_does_not_name_the_model_says_so(copied: Path, lost: str) -> None:
    """It cannot be said that the model is another one."""
    rewrite(
        copied / "manifest.json",
        lambda held: held.pop("model") if lost == "model" else held["model"].pop(lost),
    )
    message = refused(lambda: causal(load_run(copied), "parity", QUICK))
    assert "manifest.json does not say the weights of the run's model" in message
    assert "differ" not in message


def test_a_folder_that_cannot_be_written_is_named_before_any_work(copied: Path) -> None:
    (copied / ".lock").unlink(missing_ok=True)
    (copied / ".lock").mkdir()  # no lock can be had there, whoever runs the test
    message = refused(lambda: causal(load_run(copied), "parity", QUICK))
    assert message.startswith(f"cannot write to {copied} (")


def test_one_of_several_tasks_is_to_be_named(copied: Path) -> None:
    message = refused(lambda: load_run(copied).result())
    assert message == "task: this run has several, name one of them: parity, silent"


def test_results_of_older_versions_are_made_anew_from_what_was_collected(copied: Path) -> None:
    rewrite(copied / "results.json", lambda held: held["tasks"]["parity"]["probe"].pop("selected"))
    run = load_run(copied)
    message = refused(lambda: locate(run, "parity"))
    assert message == (
        f"{copied}/results.json is of an older version (it does not say which cells were selected); delete it, and "
        f"{same(copied)} makes it anew and keeps what was collected"
    )
    rewrite(copied / "results.json", lambda held: held.update(schema=0))
    message = refused(lambda: load_run(copied))
    assert "is of another version (selfprobe " in message
    assert message.endswith("run the same command again: it keeps what was collected")

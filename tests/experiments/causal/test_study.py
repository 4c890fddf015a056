"""Interventions on a run's folder: the command, what it writes, picking up, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments import load_run
from experiments.causal import CausalSettings, causal, study
from experiments.causal.figures import plot_dissociation, plot_doses, write_causal_figures
from experiments.causal.store import Store
from experiments.causal_record import READOUTS
from experiments.cli import main
from experiments.tasks import TASKS
from hooks import Model, Prompt, load_model, next_tokens
from tests.experiments import parity
from tests.experiments.causal.small_run import PROBE, copy_of, make_run, write_selected

SETTINGS = CausalSettings(n_null=40, n_items=20, n_null_items=4)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without figures, which take the longest."""
    monkeypatch.setitem(TASKS, "parity", parity.ParityTask)
    monkeypatch.setattr(study, "write_causal_figures", lambda *arguments: {})


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "parity", parity.ParityTask)
        return make_run(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def model(run_folder: Path) -> Model:
    return load_model(str(run_folder.parent / "tiny-llama"))


@pytest.fixture(scope="module")
def finished(run_folder: Path, model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_of(run_folder, tmp_path_factory.mktemp("finished") / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "parity", parity.ParityTask)
        causal(load_run(folder), None, SETTINGS, model=model)
    return folder


@pytest.fixture
def selfprobe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command; exit status, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["selfprobe", "causal", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            main()
        captured = capsys.readouterr()
        return int(leaving.value.code or 0), captured.out, captured.err

    return run


def test_a_run_has_all_parts_afterwards(finished: Path) -> None:
    found = load_run(finished).causal("parity")
    assert set(READOUTS) <= set(found["steering"])
    for readout in READOUTS:
        curve = found["steering"][readout]
        n_doses = len(curve["doses"])
        assert 0.0 in curve["doses"]
        assert len(curve["direction"]) == len(curve["diff_means"]["direction"]) == n_doses
        for kind in ("random", "shuffled"):
            assert {len(row) for row in curve[kind]} == {n_doses}
        assert 0 < curve["p"] <= 1
        assert found["dissociation"]["rows"][readout]["n"] == 20
        assert {"mean", "zero"} <= set(found["ablation"][readout])
    assert len(found["patching"]) == 8
    assert set(found["patching"][0]["recovery"]) == {"opposite", "same", "random"}
    assert {"probe", "diff_means", "system message"} <= set(found["shift"])
    assert found["guards"]["test_dose"] in found["guards"]["doses"]
    assert found["settings"] == SETTINGS.to_json()
    assert not (finished / "causal.partial-parity.jsonl").exists()
    for name in ("steering", "dissociation"):
        assert (finished / "figures" / f"causal-parity-{name}.png").stat().st_size > 10_000
        assert (finished / "figures" / f"causal-parity-{name}.svg").is_file()


def test_the_last_state_of_a_donor_carries_its_whole_answer_at_the_last_layer(
    run_folder: Path, model: Model, tmp_path: Path
) -> None:
    """Known truth: behind the last block nothing is left to mix, so recovery at the answer slot is 1."""
    folder = copy_of(run_folder, tmp_path / "run")
    settings = CausalSettings(layer=2, n_null=40, n_items=20, n_null_items=4)
    found = causal(load_run(folder), "parity", settings, model=model)["tasks"]["parity"]
    own = [row for row in found["patching"] if row["from"] == row["into"]]
    for row in own:
        whole = row["into_position"] == "prompt_last"
        for recovery in row["recovery"].values():
            assert recovery["estimate"] == pytest.approx(1.0 if whole else 0.0, abs=1e-3)


def test_the_model_is_bit_identical_afterwards(
    run_folder: Path, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the whole, and after an exception in the middle of it."""
    prompts = [Prompt.chat("p", "What is the capital of France?")]

    def state() -> tuple[Any, Any]:
        with torch.inference_mode():
            tokens = torch.arange(20)[None]
            return model.fingerprint["weights"], model.module(input_ids=tokens).logits

    weights, logits = state()
    first = next(iter(next_tokens(model, prompts)))
    folder, original = copy_of(run_folder, tmp_path / "run"), Store.get
    interrupt_after(monkeypatch, 60)
    with pytest.raises(KeyboardInterrupt):
        causal(load_run(folder), None, SETTINGS, model=model)
    for _ in range(2):
        after_weights, after_logits = state()
        assert after_weights == weights
        assert torch.equal(after_logits, logits)
        assert next(iter(next_tokens(model, prompts))) == first
        assert not model.interventions
        monkeypatch.setattr(Store, "get", original)
        causal(load_run(folder), None, SETTINGS, model=model)


def interrupt_after(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Let the n-th part that is made be stopped while it is made."""
    made = []
    original = Store.get

    def get(self: Store, part: str, make: Any) -> Any:
        def stopped() -> Any:
            made.append(part)
            if len(made) == n:
                raise KeyboardInterrupt
            return make()

        return original(self, part, stopped)

    monkeypatch.setattr(Store, "get", get)


def test_a_stopped_study_is_picked_up_and_ends_as_an_unbroken_one(
    run_folder: Path, finished: Path, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy_of(run_folder, tmp_path / "run")
    with monkeypatch.context() as patch:
        interrupt_after(patch, 50)
        with pytest.raises(KeyboardInterrupt):
            causal(load_run(folder), None, SETTINGS, model=model)
    assert not (folder / "causal.json").exists()
    kept = (folder / "causal.partial-parity.jsonl").read_bytes()
    # A kill in the middle of a write leaves half a line.
    (folder / "causal.partial-parity.jsonl").write_bytes(kept + b'{"about": "x", "pa')
    # What is left of another task that was stopped.
    other = folder / "causal.partial-other.jsonl"
    other.write_text("untouched")
    made = []
    original = study.sweep

    def counted(*arguments: Any) -> Any:
        made.append(len(kept.splitlines()))
        return original(*arguments)

    monkeypatch.setattr(study, "sweep", counted)
    causal(load_run(folder), None, SETTINGS, model=model)
    assert made == [49]
    assert (folder / "causal.json").read_text() == (finished / "causal.json").read_text()
    assert other.read_text() == "untouched"
    assert not (folder / "causal.partial-parity.jsonl").exists()


def test_parts_of_other_settings_are_neither_taken_up_nor_lost(tmp_path: Path) -> None:
    def refuse() -> int:
        raise AssertionError("was made again")

    path = tmp_path / "parts.jsonl"
    assert Store(path, {"seed": 0}).get("guards", lambda: 5) == 5
    assert Store(path, {"seed": 1}).get("guards", lambda: 7) == 7
    assert Store(path, {"seed": 0}).get("guards", refuse) == 5


def test_a_task_without_a_first_token_to_read_has_no_number_for_its_behavior(
    run_folder: Path, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "the outcome compares two answers"
    monkeypatch.setattr(parity.ParityTask, "acts_elsewhere", why)
    monkeypatch.setattr(study, "write_causal_figures", write_causal_figures)
    folder = copy_of(run_folder, tmp_path / "run")
    found = causal(load_run(folder), None, SETTINGS, model=model)["tasks"]["parity"]
    assert found["skipped"] == {
        "behavior": f"task 'parity' has no first token to read: {why}",
    }
    assert f"behavior: not measured: {found['skipped']['behavior']}." in found["notes"]
    for part in (found["steering"], found["ablation"], found["dissociation"]["rows"]):
        assert "behavior" not in part
        assert "self_report" in part
    assert {row["into"] for row in found["patching"]} == {"self_prediction"}
    assert found["dissociation"]["pattern"] == "undecided"
    assert (folder / "figures" / "causal-parity-dissociation.svg").is_file()
    for draw in (plot_doses, plot_dissociation):  # as a notebook does, whose settings are not ours
        assert draw(found).get_layout_engine() is not None


def test_a_finished_study_is_read_back_without_the_model(
    finished: Path, selfprobe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **more: Any) -> Model:
        raise AssertionError("the model was loaded")

    drawn = []
    monkeypatch.setattr(study, "load_model", refuse)
    monkeypatch.setattr("experiments.finished.Run.write_report", lambda run: drawn.append(run))
    figures = []
    monkeypatch.setattr(
        study, "write_causal_figures", lambda tasks, folder: figures.append(list(tasks))
    )
    options = ("--n-null", 40, "--n-items", 20, "--n-null-items", 4)
    status, out, _ = selfprobe(finished, *options)
    assert status == 0
    assert "parity: probe direction: behavior" in out
    assert "nats, p" in out
    status, out, _ = selfprobe(finished, *options, "--json")
    assert json.loads(out) == json.loads((finished / "causal.json").read_text())
    assert len(drawn) == 2  # the page shows them
    assert figures == [["parity"], ["parity"]]


def test_what_cannot_be_intervened_on_is_said_in_one_line(
    run_folder: Path, selfprobe: Any, tmp_path: Path
) -> None:
    def refused(*arguments: object) -> str:
        status, out, err = selfprobe(*arguments)
        assert (status, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert "Traceback" not in err
        return str(err)

    folder = copy_of(run_folder, tmp_path / "run")
    assert "holds no run" in refused(tmp_path)
    assert "'poetry' is not one of this run's: parity" in refused(folder, "--task", "poetry")
    assert "n_null: 5 is too few" in refused(folder, "--n-null", 5)
    assert "layer: 7 does not exist at resid_post; give one from 0 to 2" in refused(
        folder, "--layer", 7
    )
    write_selected(folder, PROBE | {"site": "attn_out"})
    assert "site: the probe of this run reads attn_out" in refused(folder)
    write_selected(folder, PROBE, skipped="only 3 positive items")
    assert "task: 'parity' was skipped (only 3 positive items); more" in refused(
        folder, "--task", "parity"
    )
    assert "every task of this run was skipped (parity: only 3" in refused(folder)
    (folder / "results.json").unlink()
    assert "not finished (no results.json)" in refused(folder)


def test_a_run_on_an_endpoint_has_nothing_to_change(
    run_folder: Path, selfprobe: Any, tmp_path: Path
) -> None:
    folder = copy_of(run_folder, tmp_path / "run")
    config = (folder / "config.yaml").read_text()
    endpoint = config.replace("endpoint: null", "endpoint: http://127.0.0.1:9/v1")
    endpoint = endpoint.replace("peer: null\n", "")
    (folder / "config.yaml").write_text(endpoint)
    status, _, err = selfprobe(folder)
    assert status == 2
    assert "has no activations to change" in err


def test_another_model_is_refused(run_folder: Path, tmp_path: Path) -> None:
    from tests.conftest import make_tiny_model

    folder = copy_of(run_folder, tmp_path / "run")
    with pytest.raises(ValueError, match="model: the weights of tiny-llama differ"):
        causal(load_run(folder), None, SETTINGS, model=make_tiny_model("llama", seed=5))


def test_a_run_without_interventions_says_how_to_make_them(run_folder: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no causal\.json; make it with `selfprobe causal"):
        load_run(run_folder).causal()

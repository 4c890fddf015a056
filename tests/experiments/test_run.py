"""A whole run on a tiny model: its folder, picking up after a kill, skipping, reading back."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments import Experiment, load_run
from experiments.behavior import runner
from experiments.elicitation import ANSWER_TOKENS
from experiments.tasks import TASKS
from hooks import Model, Prompt
from tests.experiments import parity

ROOT = Path(__file__).parents[2]
SAME_BYTES = (
    "config.yaml",
    "items.jsonl",
    "behavior.jsonl",
    "self_predictions.jsonl",
    "output_side.jsonl",
    "results.json",
    "results.csv",
    "scores.csv",
    "directions.json",
    "locate.json",
    "other_contexts.jsonl",
    "report.html",
    "probes/parity-task.safetensors",
)


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parity.save_tiny_model(tmp_path_factory.mktemp("model") / "tiny-llama")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for task in (parity.ParityTask, parity.SilentTask):
        monkeypatch.setitem(TASKS, task.name, task)


@pytest.fixture(scope="module")
def finished(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    process = start(tiny_folder, out)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return out


def start(model: Path, out: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [
            sys.executable,
            *("-m", "tests.experiments.parity", "run", "parity"),
            *("--model", str(model), "--out", str(out), "--seed", "1"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_results_have_what_was_promised(finished: Path) -> None:
    results = json.loads((finished / "results.json").read_text())
    task = results["tasks"]["parity"]
    assert task["n_items"] == 60
    assert 0 < task["base_rate"] < 1
    assert {"auroc", "ci", "layer", "position", "p_max"} <= set(task["probe"])
    assert {"auroc", "ci", "parse_rate"} <= set(task["verbal"])
    assert {"auroc", "ci"} <= set(task["baselines"]["text"])
    for gap in ("probe_minus_verbal", "probe_minus_text", "beyond_text"):
        assert {"estimate", "ci"} <= set(task["gap"][gap])
    assert task["breakdown"]["stage"]
    assert task["second_split"]["n_groups"] == 7
    controls, output = task["controls"], task["output_side"]
    for row in (
        *(controls[name] for name in ("embedding_layer", "random_weights", "projected_tfidf")),
        *(controls["within_text_bins"][name] for name in ("probe", "verbal", "text")),
        *(output[name] for name in ("max_probability", "top2_margin", "output_side")),
    ):
        assert {"auroc", "ci", "estimand", "kind", "rules_out"} <= set(row)
    assert controls["selectivity"]["entity"]["n_types"] == 7
    assert "openings" in output["opening_log_odds"]["reason"]
    assert task["peer"] is None


def test_the_folder_is_laid_out_as_designed(finished: Path) -> None:
    for name in (
        *SAME_BYTES,
        "manifest.json",
        "cache/task",
        "cache/self_prediction",
        "cache/input_question",
        "cache/random_weights",
        "figures",
    ):
        assert (finished / name).exists(), name
    assert not list(finished.rglob("*.tmp"))
    assert not list(finished.rglob("*partial*"))


def test_scores_agree_with_results(finished: Path) -> None:
    """The score table is the first regrouping: its pairs, counted one by one, give the row's AUROC."""
    run = load_run(finished)
    words = run.scores
    wins = pairs = 0.0
    for _, fold in words.groupby("fold"):
        for positive in fold[fold["outcome"] == 1]["verbal"]:
            for negative in fold[fold["outcome"] == 0]["verbal"]:
                wins += (positive > negative) + 0.5 * (positive == negative)
                pairs += 1
    assert wins / pairs == pytest.approx(run.result()["verbal"]["auroc"], abs=0.1)
    assert words.groupby("group")["fold"].nunique().max() == 1


def test_read_back_for_a_notebook(finished: Path) -> None:
    run = load_run(finished)
    contrast = run.contrast()
    assert {"probe", "report_probe", "transferred_probe", "verbal", "text"} <= set(
        contrast["predictor"]
    )
    rows = contrast.set_index("predictor")
    assert rows["estimand"]["verbal"] == "fixed"
    assert (
        rows["kind"]["embedding_layer"] == rows["kind"]["selectivity_entity_control"] == "control"
    )
    assert rows["kind"]["output_side"] == "output"
    assert rows["n_items"].dtype.kind == "i"
    assert rows["n_items"].eq(60).sum() > 20
    assert run.breakdown().stage == run.result()["breakdown"]["stage"]
    assert run.plot_layers().get_title() is not None
    assert len(run.behavior) == 60
    assert len(run.self_predictions) == 60 * (4 + 2 + 1)
    assert isinstance(run.cells, pd.DataFrame)
    with pytest.raises(ValueError, match="not one of this run's: parity"):
        run.breakdown("refusal")


def test_the_directions_of_a_run_are_those_of_its_probe(finished: Path) -> None:
    run = load_run(finished)
    result = run.result()
    transfer = run.transfer().set_index(["trained_on", "tested_on"])
    # The diagonal is the nested probe itself: same folds, same cells selected without each.
    assert transfer["auroc"]["task", "task"] == pytest.approx(result["probe"]["auroc"], abs=1e-6)
    assert transfer["auroc"].between(0, 1).all()
    assert set(run.transfer("strata")["trained_on"]) <= {"low", "high"}
    after = run.directions()["degeneracy"]["after"]
    assert after[0]["auroc"] == pytest.approx(result["probe"]["auroc"], abs=1e-6)
    cosines = run.cosines()
    assert list(cosines.index) == result["curves"]["layers"]
    assert np.allclose(np.diag(cosines), 1)
    assert len(run.plot_cosines().axes) == 4
    assert run.plot_transfer().axes[0].get_xticklabels()[0].get_text() == "task prompt"
    for figure in ("cosines", "transfer_contexts"):
        assert (finished / "figures" / f"parity_{figure}.svg").exists()
    page = (finished / "report.html").read_text()
    assert "Moved between contexts" in page
    assert "projected out, fitted anew" in page
    with pytest.raises(ValueError, match="fewer than two tasks"):
        run.transfer("tasks")
    with pytest.raises(ValueError, match="over: 'layers' is not one of"):
        run.plot_transfer("layers")


def test_a_report_drawn_anew_is_the_same_page(finished: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    page = (copy / "report.html").read_bytes()
    assert b"Moved between contexts" in page
    (copy / "report.html").unlink()
    load_run(copy).write_report()
    assert (copy / "report.html").read_bytes() == page
    (copy / "directions.json").unlink()
    load_run(copy).write_report()
    assert b"Moved between contexts" not in (copy / "report.html").read_bytes()


def test_a_finished_run_is_read_back_untouched(finished: Path, tiny_folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    Experiment("parity", str(tiny_folder), seed=1).run(finished)
    after = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    assert before == after


def test_what_was_deleted_or_damaged_is_made_again(
    finished: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    experiment = Experiment("parity", str(tiny_folder), seed=1)
    (copy / "results.json").write_text('{"tasks"')
    for read in (lambda: load_run(copy), lambda: experiment.run(copy)):
        with pytest.raises(ValueError, match=r"results.json is damaged .* delete it"):
            read()
    (copy / "results.json").unlink()
    with pytest.raises(ValueError, match=r"not finished \(no results.json\)"):
        load_run(copy)
    experiment.run(copy)
    for name in SAME_BYTES:
        assert (copy / name).read_bytes() == (finished / name).read_bytes(), name


def test_a_second_process_in_the_same_folder_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = start(tiny_folder, out)
    deadline = time.monotonic() + 120
    while not (out / "config.yaml").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        with pytest.raises(ValueError, match="another process is at work"):
            Experiment("parity", str(tiny_folder), seed=1).run(out)
    finally:
        first.kill()
        first.wait()


def test_other_items_in_the_same_file_are_another_run(tiny_folder: Path, tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    row = '{{"id": "{0}", "text": "sea wind {0}", "group": "{0}"}}\n'
    items.write_text("".join(row.format(i) for i in range(30)))
    run = Experiment("parity", str(tiny_folder), items=items).run(tmp_path / "run")
    assert run.result()["n_items"] == 30
    items.write_text("".join(row.format(i) for i in range(31)))
    with pytest.raises(ValueError, match=r"holds another run .items_sha256"):
        Experiment("parity", str(tiny_folder), items=items).run(tmp_path / "run")


def test_fewer_groups_than_folds_are_refused_before_the_work(
    tiny_folder: Path, tmp_path: Path
) -> None:
    items = tmp_path / "items.jsonl"
    rows = (f'{{"id": "{i}", "text": "sea {i}", "group": "{i % 3}"}}\n' for i in range(30))
    items.write_text("".join(rows))
    with pytest.raises(ValueError, match="3 groups for task 'parity', but 5 folds"):
        Experiment("parity", str(tiny_folder), items=items).run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_peer_without_a_chat_template_reads_a_transcript(
    tiny_folder: Path, tmp_path: Path
) -> None:
    from tests.conftest import make_tiny_model

    peer = make_tiny_model("gpt2")
    peer.module.save_pretrained(tmp_path / "peer")
    peer.tokenizer.save_pretrained(tmp_path / "peer")
    (tmp_path / "peer" / "chat_template.jinja").unlink()
    settings = {"peer": str(tmp_path / "peer"), "n": 40, "permutations": 199}
    run = Experiment("parity", str(tiny_folder), **settings).run(tmp_path / "run")
    found = run.result()["peer"]
    assert found["model"] == str(tmp_path / "peer")
    assert 0 < found["agreement"] < 1
    assert {"auroc", "ci", "probe_minus"} <= set(found["rows"]["peer_probe"])
    assert found["fingerprint"]["prompt_format"] == "completion"
    assert found["rows"]["peer_behavior"]["estimand"] == "fixed"
    behavior = pd.read_json(run.path / "peer_behavior.jsonl", lines=True)
    assert list(behavior["item"]) == list(run.behavior["item"])
    assert list(behavior["completions"]) != list(run.behavior["completions"])
    (run.path / "peer_behavior.jsonl").unlink()
    results = (run.path / "results.json").read_bytes()
    Experiment("parity", str(tiny_folder), **settings).run(run.path)
    assert (run.path / "results.json").read_bytes() == results
    with pytest.raises(ValueError, match=r"holds another run .peer"):
        Experiment("parity", str(tiny_folder), n=40).run(run.path)


def test_a_peer_that_lacks_the_site_is_refused_before_the_work(
    tiny_folder: Path, tmp_path: Path
) -> None:
    from tests.conftest import make_tiny_model

    peer = make_tiny_model("gpt_neox")
    for part in (peer.module, peer.tokenizer):
        part.save_pretrained(tmp_path / "peer")
    settings = {"peer": str(tmp_path / "peer"), "site": "resid_mid", "n": 20}
    with pytest.raises(ValueError, match=r"^peer: sites: 'resid_mid' does not exist"):
        Experiment("parity", str(tiny_folder), **settings).run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("site", ["embed", "resid_pre"])
def test_a_run_at_a_site_of_constant_states(tiny_folder: Path, tmp_path: Path, site: str) -> None:
    run = Experiment("parity", str(tiny_folder), site=site, n=40).run(tmp_path / "run")
    assert run.result()["probe"]["site"] == site
    assert {"task"} <= set(run.transfer()["trained_on"])
    if site == "resid_pre":
        slot = next(
            p for p in run.directions()["cosines"]["contexts"] if "self_prediction" in p["pair"]
        )
        assert 0 not in slot["layers"]


def test_log_odds_are_those_of_single_prompts(finished: Path, tiny_folder: Path) -> None:
    """Batching, prefix sharing, caching and joining change no self-prediction."""
    from hooks import load_model, option_logprobs, spellings

    model = load_model(str(tiny_folder))
    rows = load_run(finished).self_predictions.set_index(["item", "elicitation"])
    task = parity.ParityTask()
    for item in task.items()[:5]:
        for e in task.elicitations:
            alone = option_logprobs(
                model, [e.prompt(item)], {"yes": spellings(e.yes), "no": spellings(e.no)}
            )
            expected = float(alone["yes"][0] - alone["no"][0])
            assert rows.loc[(item.id, e.name), "log_odds"] == pytest.approx(expected, abs=1e-4)


def test_answers_are_those_of_single_prompts(finished: Path, tiny_folder: Path) -> None:
    """Answers that go on from the capture of their prompts are those of prompts read for them."""
    from hooks import generate, load_model

    model = load_model(str(tiny_folder))
    rows = load_run(finished).self_predictions.set_index(["item", "elicitation"])
    task = parity.ParityTask()
    for item in task.items()[:5]:
        for e in task.elicitations:
            (alone,) = generate(model, [e.prompt(item)], max_new_tokens=ANSWER_TOKENS)
            assert rows.loc[(item.id, e.name), "answer"] == alone.text


def test_questions_are_read_once(tiny_folder: Path, tmp_path: Path) -> None:
    """In words, only what no capture has read is read."""
    read: list[str] = []
    generate = runner.generate

    def noting(model: Model, prompts: list[Prompt], **settings: object) -> list:
        if settings.get("kept") is None:
            read.extend(prompt.messages[-1]["content"] for prompt in prompts)
        return generate(model, prompts, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "generate", noting)
        run = Experiment("parity", str(tiny_folder), seed=1).run(tmp_path / "run")
    asked = run.self_predictions
    assert asked.answer[asked.form == "options"].notna().all()
    task = parity.ParityTask()
    questions = {
        e.prompt(item).messages[-1]["content"] for e in task.elicitations for item in task.items()
    }
    assert read
    assert not questions & set(read)


def test_killed_again_and_again_it_ends_with_the_same_bytes(
    finished: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    manifest = json.loads((finished / "manifest.json").read_text())
    work = sum(manifest["finished"].values())
    rng = random.Random(0)
    out = tmp_path / "killed"
    landed = 0
    for _ in range(4):
        process = start(tiny_folder, out)
        deadline = time.monotonic() + 120
        while not (out / "manifest.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(rng.uniform(0, work / 2))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            landed += 1
        process.wait()
        if (out / "report.html").exists():
            break
    assert landed >= 1
    process = start(tiny_folder, out)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    for name in SAME_BYTES:
        assert (out / name).read_bytes() == (finished / name).read_bytes(), name


def test_trap_20_a_class_without_items_is_skipped_and_the_run_goes_on(
    tiny_folder: Path, tmp_path: Path
) -> None:
    run = Experiment(["silent", "parity"], str(tiny_folder), n=40).run(tmp_path / "run")
    assert run.result("silent")["skipped"] == "no positive items among 20"
    assert run.result("parity")["skipped"] is None
    assert "no positive items" in (tmp_path / "run" / "report.html").read_text()
    with pytest.raises(ValueError, match=r"was skipped \(no positive items among 20\)"):
        run.breakdown("silent")
    assert set(run.scores["task"]) == {"parity"}


def test_a_run_of_skipped_tasks_alone_is_read_back(tiny_folder: Path, tmp_path: Path) -> None:
    run = Experiment("silent", str(tiny_folder)).run(tmp_path / "run")
    assert run.scores.empty
    assert run.contrast().empty


def test_trap_22_an_unscored_item_is_left_out_everywhere_and_counted(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.tasks import Judgment

    judged = parity.ParityTask.judge

    def some_unscored(self, items, completions):
        judgments = judged(self, items, completions)
        return [
            Judgment(None, "unclear", judgment.votes, "cannot tell")
            if item.id.endswith("3b")
            else judgment
            for item, judgment in zip(items, judgments, strict=True)
        ]

    monkeypatch.setattr(parity.ParityTask, "judge", some_unscored)
    run = Experiment("parity", str(tiny_folder)).run(tmp_path / "run")
    left_out = [item.id for item in parity.ParityTask().items() if item.id.endswith("3b")]
    assert len(left_out) == 3
    result = run.result()
    assert result["n_items"] == 57
    assert result["judges"]["unscored"] == 3
    assert not set(left_out) & set(run.scores["item"])
    assert run.behavior.set_index("item").loc[left_out[0], "reason"] == "cannot tell"
    strict, lenient = result["verbal"]["strict"], result["verbal"]["lenient"]
    share = result["verbal"]["parse_rate"]
    assert strict == pytest.approx((lenient or 0) * share, abs=1e-5)
    assert sum(result["verbal"]["unscored"].values()) == round(57 * (1 - share))
    assert np.isnan(run.scores["verbal_answer"]).sum() == round(57 * (1 - share))

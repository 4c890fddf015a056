"""A whole sweep of two tiny models, two tasks and two seeds: killed, failing, extended, on every engine."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from filelock import FileLock

from activations_cache import ActivationsCache
from experiments.progress import Silent
from experiments.sweeps import engines, work
from experiments.sweeps.cells import make_cells
from experiments.sweeps.engines import Cores, InProcess
from experiments.sweeps.figure import write_figure
from experiments.sweeps.folder import SweepFolder
from experiments.sweeps.jobs import Job
from experiments.sweeps.runner import Sweep, run_sweep
from experiments.tasks import TASKS
from tests.experiments import sweep_tasks

ROOT = Path(__file__).parents[2]
SAME_BYTES = ("results.csv", "results.json", "sweep.png", "sweep.svg")
ALIKE = {"folds": 3, "layers": [1], "positions": ["prompt_last"], "paraphrases": 1}


@pytest.fixture(scope="module", autouse=True)
def tasks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for task in sweep_tasks.TESTED:
            patched.setitem(TASKS, task.name, task)
        yield


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> dict:
    models = sweep_tasks.save_two_models(tmp_path_factory.mktemp("models"))
    return {"model": models, "task": ["parity", "other_parity"], "seed": [0, 1], **ALIKE}


@pytest.fixture(scope="module")
def unbroken(grid: dict, tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    out = tmp_path_factory.mktemp("sweeps") / "unbroken"
    return run_sweep(make_cells(grid), grid, out, InProcess(threads=1))


@pytest.fixture
def start(grid: dict, tmp_path: Path):
    """Starts the command in a process of its own, with one thread a worker as in `unbroken`."""
    config = tmp_path / "sweep.yaml"
    config.write_text(yaml.safe_dump(grid))

    def command(out: Path, *options: str, **environment: str) -> subprocess.Popen:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.experiments.sweep_tasks", "sweep", str(config)),
                *("--out", str(out), "--threads", "1", *options),
            ],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return command


def finish(process: subprocess.Popen, status: int = 0) -> str:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == status, output
    return output


def wait_for(reached, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 200
    while not reached() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)


def assert_same_bytes(out: Path, whole: Sweep) -> None:
    for name in SAME_BYTES:
        assert (out / name).read_bytes() == (whole.folder.path / name).read_bytes(), name


def test_the_table_has_a_row_a_cell(unbroken: Sweep, grid: dict) -> None:
    table = unbroken.table
    assert table["status"].tolist() == ["done"] * 8
    assert table["model"].tolist() == [model for model in grid["model"] for _ in range(4)]
    assert table["seed"].tolist() == [0, 1] * 4
    assert (table["ci_low"] < table["auroc"]).all()
    assert (table["auroc"] < table["ci_high"]).all()
    assert set(table["estimand"]) == {"procedure"}
    assert table["p_max"].between(1 / 200, 1).all()
    assert table[["text_auroc", "gain", "gain_ci_low"]].notna().all(axis=None)
    assert set(table["chosen_layer"]) == {1}
    read = pd.read_csv(unbroken.folder.table)
    assert read["auroc"].tolist() == table["auroc"].tolist()


def test_each_model_and_task_ran_once_for_both_seeds(unbroken: Sweep) -> None:
    assert len(list((unbroken.folder.path / "sources").iterdir())) == 4
    assert unbroken.table["auroc"].nunique() == 8, "folds differ with the seed"


def test_a_cell_is_what_its_source_says(unbroken: Sweep, grid: dict) -> None:
    """Layer curve of a cell against a plain loop over folds with scikit-learn, from the files of its source."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    folder = unbroken.folder
    job = Job("cell", make_cells(grid)[4])
    source = folder.of(job.of("source"))
    behavior = [json.loads(line) for line in (source / "behavior.jsonl").read_text().splitlines()]
    y = np.array([row["outcome"] for row in behavior])
    ids = [row["item"] for row in behavior]
    cache = ActivationsCache.open(source / "cache" / "task")
    X = cache.read("resid_post", layer=1, position="prompt_last", ids=ids)
    groups = np.array([item[:-1] for item in ids])
    rng = np.random.default_rng(0)
    aurocs = []
    for _ in range(20):
        fold_of = dict(
            zip(np.unique(groups), rng.permutation(len(np.unique(groups))) % 3, strict=True)
        )
        folds = np.array([fold_of[group] for group in groups])
        for fold in range(3):
            train, test = folds != fold, folds == fold
            scale = X[train].std(axis=0) + 1e-6
            center = X[train].mean(axis=0)
            model = LogisticRegression(C=0.1).fit((X[train] - center) / scale, y[train])
            aurocs.append(
                roc_auc_score(y[test], model.decision_function((X[test] - center) / scale))
            )
    row = unbroken.table.set_index("cell").loc[job.name]
    assert row["n_items"] == len(ids)
    assert row["base_rate"] == pytest.approx(y.mean(), abs=1e-6)
    curve = pd.read_csv(folder.of(job) / "curve.csv")
    assert curve[["site", "layer", "position"]].to_numpy().tolist() == [
        ["resid_post", 1, "prompt_last"]
    ]
    assert curve["auroc"][0] == pytest.approx(np.mean(aurocs), abs=0.1)
    assert row["auroc"] == pytest.approx(np.mean(aurocs), abs=0.1)


def test_a_finished_sweep_is_read_back_untouched(unbroken: Sweep, grid: dict) -> None:
    def times() -> dict[Path, int]:
        files = (path for path in unbroken.folder.path.rglob("*") if path.is_file())
        kept = ("sources", "references", "cells")
        return {f: f.stat().st_mtime_ns for f in files if set(kept) & set(f.parts)}

    before = times()
    again = run_sweep(make_cells(grid), grid, unbroken.folder.path, InProcess(threads=1))
    assert times() == before
    assert again.table.equals(unbroken.table)


def test_other_contexts_and_probes_and_a_seed_are_added(
    unbroken: Sweep, grid: dict, tmp_path: Path
) -> None:
    """More cells of the same sources: no model is loaded, and what was finished stays."""
    import shutil

    out = tmp_path / "more"
    shutil.copytree(unbroken.folder.path, out)
    wider = {
        **grid,
        "model": grid["model"][:1],
        "task": "parity",
        "seed": [0, 2],
        "context": ["task", "self_prediction"],
        "probe": ["ridge", "diff_means"],
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(work, "load_model", None)
        more = run_sweep(make_cells(wider), wider, out, InProcess(threads=1))
    assert more.table["status"].tolist() == ["done"] * 8
    shared = more.table.merge(unbroken.table, on="cell")
    assert len(shared) == 1
    assert shared["auroc_x"].tolist() == shared["auroc_y"].tolist()
    by = more.table.set_index(["context", "probe", "seed"])
    assert by.loc[("task", "ridge", 0), "p_max"] == by.loc[("task", "diff_means", 0), "p_max"]
    assert by.loc[("task", "ridge", 0), "auroc"] != by.loc[("task", "diff_means", 0), "auroc"]
    assert by.loc[("self_prediction", "ridge", 0), "auroc"] != by.loc[("task", "ridge", 0), "auroc"]
    assert more.table.groupby("seed")["text_auroc"].nunique().tolist() == [1, 1]


def test_killed_it_ends_with_the_same_table(unbroken: Sweep, start, tmp_path: Path) -> None:
    """SIGKILL in the middle of a source and again among the texts: nothing that was finished is done again."""
    out = tmp_path / "killed"
    finished = 0
    for part, count in (("sources/*/cache", 2), ("references/*/result.json", 3)):
        process = start(out)
        wait_for(lambda part=part, count=count: len(list(out.glob(part))) >= count, process)
        time.sleep(random.Random(part).uniform(0, 0.5))
        assert process.poll() is None, process.communicate()[0]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not (out / "results.csv").exists()
        finished = {path: path.stat().st_mtime_ns for path in out.glob("references/*/result.json")}
    assert len(finished) >= 3
    finish(start(out))
    assert_same_bytes(out, unbroken)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert not list(out.rglob("*.unfinished"))


def test_a_failing_cell_stops_no_other_and_is_tried_again(
    unbroken: Sweep, grid: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lunch = tmp_path / "lunch"
    lunch.touch()
    monkeypatch.setenv(sweep_tasks.FAILS_WHILE, str(lunch))
    one = {**grid, "model": grid["model"][:1], "seed": 0}
    out = tmp_path / "failing"
    broken = run_sweep(make_cells(one), one, out, InProcess(threads=1))
    assert broken.table.set_index("task")["status"].to_dict() == {
        "parity": "done",
        "other_parity": "failed",
    }
    (reason,) = broken.failed["reason"]
    assert "the judge is out for lunch" in reason
    assert "\n" not in reason
    lunch.unlink()
    mended = run_sweep(make_cells(one), one, out, InProcess(threads=1))
    whole = unbroken.table[unbroken.table["cell"].isin(mended.table["cell"])]
    assert mended.table.reset_index(drop=True).equals(whole.reset_index(drop=True))
    assert not list((out / "failures").iterdir())


def test_labels_that_cannot_be_scored_are_skipped_with_their_reason(
    grid: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.experiments.parity import SilentTask

    monkeypatch.setitem(TASKS, "silent", SilentTask)
    silent = {"model": grid["model"][0], "task": "silent", **ALIKE}
    sweep = run_sweep(make_cells(silent), silent, tmp_path / "out", InProcess(threads=1))
    (row,) = sweep.table.to_dict("records")
    assert (row["status"], row["reason"]) == ("skipped", "no positive items among 20")
    assert len(sweep.failed) == 0


def test_a_dry_run_lists_the_cells_and_loads_nothing(
    unbroken: Sweep, grid: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    from experiments.cli.app import app

    monkeypatch.setattr(work, "load_model", None)
    config = tmp_path / "sweep.yaml"
    config.write_text(yaml.safe_dump({**grid, "seed": [0, 1, 2]}))
    new = tmp_path / "new"
    app(["sweep", str(config), "--dry-run", "--json", "--out", str(new)], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert not new.exists()
    assert [cell["status"] for cell in told["cells"]] == ["to do"] * 12
    assert told["estimate"]["jobs"]["source"] == [4, 4]
    assert told["estimate"]["measured"] == []
    assert told["estimate"]["seconds"] > 0
    there = str(unbroken.folder.path)
    app(["sweep", str(config), "--dry-run", "--out", there], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:12]] == ["done", "done", "to"] * 4
    assert "0 of 4 sources, 4 of 12 texts" in lines[12]
    assert "(measured here)" in lines[12]


def test_the_estimate_of_disk_is_what_the_caches_hold(unbroken: Sweep, grid: dict) -> None:
    from experiments.sweeps.checks import check_cells
    from experiments.sweeps.estimate import estimate

    cells = make_cells(grid)
    nothing_done = SweepFolder(unbroken.folder.path / "nowhere")
    guessed = estimate(cells, check_cells(cells), nothing_done, InProcess()).disk_bytes
    caches = unbroken.folder.path.glob("sources/*/cache/*")
    held = 0
    for path in caches:
        with ActivationsCache.open(path) as cache:
            held += 2 * sum(
                len(cache.ids) * cache.read(s, layer=n, position=p).shape[1]
                for s, n, p in cache.cells()
            )
    assert guessed == pytest.approx(held, rel=0.35)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"model": ["no-such-model"]}, [], "model: unknown model 'no-such-model'"),
        ({"layers": [-4]}, [], "layers: -4 is before the first layer of model"),
        ({"layers": [[0], [3]]}, [], "layers: 3 is beyond the last layer, 2, of model"),
        ({"folds": 20, "n": 30}, [], "folds: 20, but task 'parity' has 15 groups"),
        ({}, ["--gpus-per-cell", "9"], "gpus-per-cell: 9 asked for, but this machine has"),
        ({}, ["--engine", "cores", "--gpus-per-cell", "9"], "gpus-per-cell: 9 asked for"),
        ({}, ["--gpus-per-cell", "0.5"], "gpus-per-cell: 0.5 is no whole number"),
        ({}, ["--workers", "2"], "workers: 2, but engine 'in-process' is one"),
        ({}, ["--address", "auto"], "address: engine 'in-process' has none"),
    ],
)
def test_what_would_fail_later_is_refused_before_anything_is_written(
    grid: dict, tmp_path: Path, change: dict, options: list[str], message: str
) -> None:
    from experiments.cli.app import app

    config = tmp_path / "sweep.yaml"
    config.write_text(yaml.safe_dump({**grid, **change}))
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=message) as refused:
        app(["sweep", str(config), "--out", str(out), *options], standalone_mode=False)
    assert "\n" not in str(refused.value)
    assert not out.exists()


def test_ray_that_is_not_installed_is_named(
    grid: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.cli.app import app

    monkeypatch.setitem(sys.modules, "ray", None)
    config = tmp_path / "sweep.yaml"
    config.write_text(yaml.safe_dump(grid))
    with pytest.raises(ValueError, match=r"pip install 'selfprobe\[ray\]'"):
        app(["sweep", str(config), "--engine", "ray"], standalone_mode=False)


def test_a_folder_of_other_things_is_refused(grid: dict, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match="holds other files"):
        run_sweep(make_cells(grid), grid, tmp_path, InProcess())
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_second_sweep_in_the_same_folder_is_refused(unbroken: Sweep, grid: dict) -> None:
    with (
        SweepFolder(unbroken.folder.path).lock,
        pytest.raises(ValueError, match="another sweep is at work"),
    ):
        run_sweep(make_cells(grid), grid, unbroken.folder.path, InProcess(), reporter=Silent())


def test_a_source_waits_for_a_lost_worker_that_has_not_ended_yet(
    grid: dict, tmp_path: Path
) -> None:
    from threading import Timer

    from experiments import Experiment
    from experiments.run_folder import RunFolder

    out = tmp_path / "source"
    out.mkdir()
    experiment = Experiment("parity", grid["model"][0], n=20, paraphrases=1)
    lock = FileLock(RunFolder(out).lock.lock_file, thread_local=False)
    lock.acquire()
    with pytest.raises(ValueError, match="another process is at work"):
        experiment.collect(out)
    Timer(0.3, lock.release).start()
    experiment.collect(out, wait_s=60)
    assert all(RunFolder(out).is_finished(stage) for stage in ("behavior", "self-predictions"))
    assert not (out / "results.json").exists()


def test_gpus_are_dealt_to_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "visible_gpus", lambda: [str(n) for n in range(8)])
    assert Cores().shares == list("01234567")
    assert Cores().slots(on_gpu=True) == 8
    assert Cores(gpus_per_cell=4).shares == ["0,1,2,3", "4,5,6,7"]
    assert Cores(gpus_per_cell=3).slots(on_gpu=True) == 2
    assert Cores(gpus_per_cell=0).shares == []
    assert Cores(workers=5, gpus_per_cell=0).slots(on_gpu=True) == 5


def test_a_figure_of_many_cells(tmp_path: Path) -> None:
    """Twice the same bytes, with a skipped and a failed cell among them."""
    rng = np.random.default_rng(0)
    cells = make_cells(
        {
            "model": [f"organization/model-{n}" for n in range(4)],
            "task": ["refusal", "difficulty"],
            "context": ["task", "self_prediction"],
            "seed": [0, 1, 2],
        }
    )
    rows = []
    for cell in cells:
        auroc = rng.uniform(0.5, 0.9)
        ends = {"ci_low": auroc - 0.1, "ci_high": auroc + 0.08, "text_auroc": rng.uniform(0.4, 0.8)}
        rows.append(
            {
                **cell.settings,
                "layers": "all",
                "status": "done",
                "reason": "",
                "auroc": auroc,
                **ends,
            }
        )
    nothing = {"auroc": None, "ci_low": None, "ci_high": None, "text_auroc": None}
    rows[3] |= {"status": "skipped", "reason": "no positive items among 20", **nothing}
    rows[4] |= {"status": "failed", "reason": "the worker was lost " * 9, **nothing}
    table = pd.DataFrame(rows).drop(columns="positions").assign(positions="prompt_last")
    write_figure(table, tmp_path / "a")
    write_figure(table, tmp_path / "b")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("how_often", ["once", "always"])
def test_a_worker_that_dies_costs_only_its_own_job(
    unbroken: Sweep, start, tmp_path: Path, how_often: str
) -> None:
    """Once: the job is done again. Always: the job is recorded as lost, and the others are done."""
    mine = tmp_path / "mine"
    mine.write_text(how_often)
    out = tmp_path / "cores"
    process = start(out, "--engine", "cores", "--workers", "2", **{sweep_tasks.KILLS: str(mine)})
    if how_often == "once":
        finish(process)
        assert not mine.exists()
        assert_same_bytes(out, unbroken)
    else:
        assert "4 of 8 cells failed" in finish(process, status=1)
        table = pd.read_csv(out / "results.csv").set_index("task")
        assert set(table.loc["other_parity", "status"]) == {"done"}
        assert set(table.loc["parity", "reason"]) == {work.LOST}


def spoil(path: Path, name: str, held: bytes | None) -> None:
    (path / name).unlink()
    if held is not None:
        (path / name).write_bytes(held)


@pytest.mark.parametrize(
    ("part", "name", "held", "said"),
    [
        ("text", "result.json", b"{}", "result.json is damaged (it holds no result); delete"),
        ("text", "scores.safetensors", b"half", "scores.safetensors is damaged"),
        ("text", "scores.safetensors", None, "scores.safetensors is damaged"),
        ("source", "items.jsonl", b"", "items.jsonl is damaged (0 items, not the 60 of"),
        ("source", "behavior.jsonl", b"", "behavior.jsonl is damaged (0 items, not the 60 of"),
    ],
)
def test_a_damaged_part_is_named_with_the_mend_and_no_cell_is_made_of_it(
    unbroken: Sweep, grid: dict, tmp_path: Path, part: str, name: str, held: bytes, said: str
) -> None:
    out = tmp_path / "damaged"
    shutil.copytree(unbroken.folder.path, out)
    cells = make_cells(grid)
    folder, job = SweepFolder(out), Job("cell", cells[0])
    shutil.rmtree(folder.of(job))
    spoil(folder.of(job.of(part)), name, held)
    failed = run_sweep(cells, grid, out, InProcess(threads=1)).failed
    assert failed["cell"].tolist() == [job.name]
    (reason,) = failed["reason"]
    assert said in reason
    assert f"delete {folder.of(job.of(part))} and run the same command again" in reason


def test_a_damaged_cell_is_named_with_the_mend(unbroken: Sweep, grid: dict, tmp_path: Path) -> None:
    out = tmp_path / "damaged"
    shutil.copytree(unbroken.folder.path, out)
    cells = make_cells(grid)
    folder = SweepFolder(out).of(Job("cell", cells[3]))
    spoil(folder, "result.json", b"{}")
    with pytest.raises(ValueError, match=rf"damaged .*; delete {folder} and run the same command"):
        run_sweep(cells, grid, out, InProcess(threads=1))
    assert_same_bytes(out, unbroken)


def test_what_stands_in_the_place_of_a_cell_and_is_none_is_replaced(
    unbroken: Sweep, grid: dict, tmp_path: Path
) -> None:
    out, theirs = tmp_path / "spoiled", tmp_path / "theirs"
    shutil.copytree(unbroken.folder.path, out)
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("x")
    cells = make_cells(grid)
    half, file, link = (SweepFolder(out).of(Job("cell", cell)) for cell in cells[:3])
    (half / "result.json").unlink()
    for path in (file, link):
        shutil.rmtree(path)
    file.write_text("a file")
    link.symlink_to(theirs)
    run_sweep(cells, grid, out, InProcess(threads=1))
    assert_same_bytes(out, unbroken)
    assert [path.name for path in theirs.iterdir()] == ["thesis.tex"]

"""The folder of a run on a tiny model, with no more in it than interventions look at: made in a second or two."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from experiments import Experiment
from experiments.records import write_json
from experiments.run_folder import RunFolder
from experiments.tables import SCORE_COLUMNS, TABLE_COLUMNS
from tests.experiments import parity

PROBE = {"site": "resid_post", "layer": 1, "position": "prompt_last", "alpha": 1.0}


def make_run(folder: Path) -> Path:
    """Collect behavior and activations of the parity task, and say which probe was selected."""
    tiny = folder / "tiny-llama"
    parity.save_tiny_model(tiny)
    out = folder / "run"
    Experiment("parity", str(tiny), paraphrases=1, words="short").collect(out)
    write_selected(out, PROBE)
    run = RunFolder(out)
    for path, columns in ((run.table, TABLE_COLUMNS), (run.scores, SCORE_COLUMNS)):
        pd.DataFrame(columns=columns).to_csv(path, index=False)
    return out


def write_selected(out: Path, probe: dict[str, Any], skipped: str | None = None) -> None:
    """Write a `results.json` in which a probe was selected, or the task skipped."""
    task = {
        "task": "parity",
        "skipped": skipped,
        "probe": probe,
        "breakdown": {"stage": "undetermined"},
    }
    write_json(RunFolder(out).results, {"schema": 1, "tasks": {"parity": task}})


def copy_of(run: Path, to: Path) -> Path:
    """A copy to write into."""
    return Path(shutil.copytree(run, to))

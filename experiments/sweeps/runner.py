"""A sweep from its cells to its table: wave after wave, each handed to the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.progress import Reporter, Silent
from experiments.sweeps.cells import Cell
from experiments.sweeps.engines import Engine
from experiments.sweeps.figure import write_figure
from experiments.sweeps.folder import SweepFolder
from experiments.sweeps.jobs import Job, Kind, waves
from experiments.sweeps.tables import write_tables
from experiments.sweeps.work import Batch

WAVES = ("models", "texts and permutations", "probes")

NEEDS: dict[Kind, tuple[Kind, ...]] = {
    "source": (),
    "text": ("source",),
    "null": ("source",),
    "cell": ("source", "text", "null"),
}


@dataclass(frozen=True)
class Sweep:
    """What a sweep came to."""

    folder: SweepFolder
    table: pd.DataFrame
    """A row a cell, as in `results.csv`."""

    @property
    def failed(self) -> pd.DataFrame:
        """The cells that failed, with the reason; the next run of the same sweep tries them again."""
        return self.table[self.table["status"] == "failed"]


def run_sweep(
    cells: Sequence[Cell],
    settings: Mapping[str, Any],
    out: str | Path,
    engine: Engine,
    *,
    reporter: Reporter | None = None,
) -> Sweep:
    """Do what is not finished of a sweep in the folder `out`, and write its table and figure.

    A cell that fails is a row with its reason. A sweep that is killed loses what was under way, and ends with the same
    bytes when it is run again.

    Args:
        cells: of `make_cells`.
        settings: what they were made from, kept in the folder.
        out: the folder, which every worker must see under the same name.
        engine: where the work runs.
        reporter: shows how far it is.

    Raises:
        ValueError: a folder that holds something else, or another sweep at work in it.
        RuntimeError: the engine has no worker left.
    """
    folder = SweepFolder(Path(out))
    folder.claim(settings)
    try:
        for name, jobs in zip(WAVES, waves(cells), strict=True):
            _run_wave(name, jobs, folder, engine, reporter or Silent())
        table = write_tables(folder, cells)
        write_figure(table, folder.figure)
    finally:
        folder.lock.release()
    return Sweep(folder, table)


def _run_wave(
    name: str, jobs: Sequence[Job], folder: SweepFolder, engine: Engine, reporter: Reporter
) -> None:
    pending = []
    for job in jobs:
        if not folder.is_finished(job):
            folder.forget_failure(job)
            if all(folder.is_finished(job.of(kind)) for kind in NEEDS[job.kind]):
                pending.append(job)
    if not pending:
        return
    on_gpu = jobs[0].kind == "source"
    batches = [Batch(folder.path, tuple(part)) for part in share(pending, engine.slots(on_gpu))]
    with reporter.stage(name, len(pending)) as advance:
        for _ in engine.run(batches, on_gpu=on_gpu):
            left = [job for job in pending if not folder.is_settled(job)]
            advance(len(pending) - len(left))
            pending = left


def share(jobs: Sequence[Job], slots: int) -> list[list[Job]]:
    """Cut jobs into batches: sources of one model together as far as all slots get work, other jobs one by one."""
    most = -(-len(jobs) // slots)
    parts: list[list[Job]] = []
    for job in jobs:
        last = parts[-1] if parts else []
        fits = bool(last) and len(last) < most and job.kind == "source"
        if fits and last[0].config.model == job.config.model:
            last.append(job)
        else:
            parts.append([job])
    return parts

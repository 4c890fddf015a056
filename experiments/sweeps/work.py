"""What a worker does with a job: in any process, on any machine that sees the sweep's folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import traceback
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from experiments.records import write_json
from experiments.run import Experiment
from experiments.run_folder import RunFolder, versions
from experiments.runnable import RUNNABLE
from experiments.sweeps.analysis import Part, cell_part, null_part, text_part
from experiments.sweeps.folder import UNFINISHED, SweepFolder
from experiments.sweeps.jobs import Job
from hooks import Model, load_model

WAIT_S = 60.0
"""How long a source waits for a process that is still at work in its folder: one that was lost, and not yet ended."""

LOST = "the worker was lost (killed, perhaps for memory); with fewer workers there is more for each"


@dataclass(frozen=True)
class Batch:
    """Jobs that one worker does one after the other, and how."""

    out: Path
    jobs: tuple[Job, ...]
    threads: int | None = None
    """Of torch and of the solvers; None for all cores."""
    device: str | None = None
    """As `load_model` takes it."""


def do_batch(batch: Batch) -> None:
    """Do what is not finished. A job that fails is recorded with its reason, and the next one is begun."""
    folder = SweepFolder(batch.out)
    with _threads(batch.threads):
        for job in batch.jobs:
            if folder.is_finished(job):
                continue
            RUNNABLE.setdefault(job.cell.task.name, job.cell.task)
            try:
                _do(job, folder, batch.device)
            except Exception as error:
                reason = " ".join((str(error) or type(error).__name__).split())
                folder.note_failure(job, reason, traceback.format_exc())
            else:
                folder.forget_failure(job)


def is_settled(batch: Batch) -> bool:
    """Whether every job of a batch is finished or has failed."""
    folder = SweepFolder(batch.out)
    return all(folder.is_settled(job) for job in batch.jobs)


def note_lost(out: Path, job: Job) -> None:
    """Record a job that took its worker with it, unless it is finished after all."""
    folder = SweepFolder(out)
    if not folder.is_finished(job):
        folder.note_failure(job, LOST, "")


@contextmanager
def _threads(limit: int | None) -> Iterator[None]:
    """Keep torch, BLAS and the pools of `probes` to so many threads."""
    if limit is None:
        yield
        return
    before = torch.get_num_threads(), os.environ.get("LOKY_MAX_CPU_COUNT")
    torch.set_num_threads(limit)
    os.environ["LOKY_MAX_CPU_COUNT"] = str(limit)  # what joblib.cpu_count() heeds
    try:
        with threadpool_limits(limit):
            yield
    finally:
        torch.set_num_threads(before[0])
        if before[1] is None:
            del os.environ["LOKY_MAX_CPU_COUNT"]
        else:
            os.environ["LOKY_MAX_CPU_COUNT"] = before[1]


def _do(job: Job, folder: SweepFolder, device: str | None) -> None:
    if job.kind == "source":
        _collect(job, folder, device)
        return
    source = RunFolder(folder.of(job.of("source")))
    start = time.monotonic()
    if job.kind == "text":
        part = text_part(job, source)
    elif job.kind == "null":
        part = null_part(job, source)
    else:
        text, null = (folder.of(job.of(kind)) for kind in ("text", "null"))
        part = cell_part(job, source, text, null)
    _write(job, folder, part, time.monotonic() - start)


def _collect(job: Job, folder: SweepFolder, device: str | None) -> None:
    config = job.config
    if config.items is not None:
        digest = hashlib.sha256(config.items.read_bytes()).hexdigest()
        if digest != config.items_sha256:
            raise ValueError(
                f"items: {config.items} has changed since the sweep began; run it again"
            )
    Experiment.from_config(config).collect(
        folder.of(job), load=lambda name, dtype: _loaded(name, dtype, device), wait_s=WAIT_S
    )


@lru_cache(maxsize=1)
def _loaded(name: str, dtype: str, device: str | None) -> Model:
    """The model that this process loaded last, which the next job is likely to need again."""
    return load_model(name, dtype=dtype, device=device)


def _write(job: Job, folder: SweepFolder, part: Part, seconds: float) -> None:
    """Write a result aside and rename it: it is there whole or not at all, and a second one changes nothing."""
    path = folder.of(job)
    aside = path.with_name(f"{path.name}-{uuid.uuid4().hex[:8]}{UNFINISHED}")
    aside.mkdir(parents=True)
    part.write(aside)
    write_json(aside / "manifest.json", {"seconds": round(seconds, 2), "versions": versions()})
    try:
        aside.rename(path)
    except OSError:
        if folder.is_finished(job):  # by another worker
            shutil.rmtree(aside, ignore_errors=True)
            return
        _clear(path)
        aside.rename(path)


def _clear(path: Path) -> None:
    """Remove what is no result, a link or a folder without its `result.json`; what a link leads to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

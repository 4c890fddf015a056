"""What a sweep will take: by the times of what is finished in its folder, else by a rule of thumb.

The rule counts units of work a job and multiplies them by seconds a unit that two CPU cores took. It knows no
hardware: once a job of a kind is finished, its own rate takes the rule's place. Within a factor of two is good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from experiments.progress import clock
from experiments.records import read_json
from experiments.run_folder import COLLECTED, RunFolder
from experiments.sweeps.cells import Cell
from experiments.sweeps.checks import Known
from experiments.sweeps.engines import Engine
from experiments.sweeps.folder import SweepFolder
from experiments.sweeps.jobs import Job, Kind, waves

PROMPT_TOKENS = 60
"""Of a prompt, by the rule."""
RATES: dict[Kind, float] = {"source": 20.0, "text": 5.0, "null": 1.0, "cell": 0.5}
"""Seconds a unit, by the rule."""
_NAMES = {"source": "sources", "text": "texts", "null": "permutation tests", "cell": "cells"}
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
PROCESS_BYTES = 1.2e9
"""What a worker takes beside a model: the libraries, the encoder of the texts, a few cells of activations."""


@dataclass(frozen=True)
class Estimate:
    """What is left to do, and what it will take."""

    jobs: dict[str, tuple[int, int]]
    """Kind -> (to do, all)."""
    seconds: float | None
    """None where a model is not here yet, so that its size is not known."""
    worker_bytes: float | None
    """Of memory, the most that one worker takes."""
    workers: int
    disk_bytes: float | None
    """Of activations, still to be written."""
    measured: tuple[str, ...]
    """Kinds whose time is from finished jobs; of the others it is by the rule."""

    def sentence(self) -> str:
        """The estimate in words."""
        left = ", ".join(
            f"{todo} of {every} {_NAMES[kind]}" for kind, (todo, every) in self.jobs.items()
        )
        if self.seconds is None or self.worker_bytes is None or self.disk_bytes is None:
            return f"to do: {left}; what it takes is not known before the models are here"
        basis = "measured here" if len(self.measured) == len(self.jobs) else "a rule of thumb"
        if self.measured and basis != "measured here":
            basis = f"measured here for {', '.join(_NAMES[kind] for kind in self.measured)}, else a rule of thumb"
        return (
            f"to do: {left}; about {clock(self.seconds)} with {self.workers} at a time ({basis}), "
            f"{self.worker_bytes / 1e9:.1f} GB of memory for each, {self.disk_bytes / 1e9:.2g} GB of disk"
        )

    def to_json(self) -> dict[str, Any]:
        """As `selfprobe sweep --dry-run --json` prints it."""
        return asdict(self)


def estimate(cells: Sequence[Cell], known: Known, folder: SweepFolder, engine: Engine) -> Estimate:
    """Count what is not finished and guess its time, memory and disk."""
    jobs: dict[str, tuple[int, int]] = {}
    seconds, disk, memory, measured = 0.0, 0.0, 0.0, []
    unknown = False
    for wave in waves(cells):
        on_gpu = wave[0].kind == "source"
        for kind in dict.fromkeys(job.kind for job in wave):
            of_kind = [job for job in wave if job.kind == kind]
            left = [job for job in of_kind if not folder.is_finished(job)]
            jobs[kind] = (len(left), len(of_kind))
            rates = _measured(of_kind, known, folder)
            if rates:
                measured.append(kind)
            rate = median(rates) if rates else RATES[kind]
            amounts = [_units(job, known) for job in left]
            unknown |= None in amounts
            seconds += (
                rate * sum(a or 0 for a in amounts) / min(engine.slots(on_gpu), len(left) or 1)
            )
            if on_gpu:
                disk += sum(_disk_bytes(job, known) or 0 for job in left)
            memory = max([memory, *(_memory_bytes(job, known) or 0 for job in left)])
    slots = max(engine.slots(True), engine.slots(False))
    if unknown:
        return Estimate(jobs, None, None, slots, None, tuple(measured))
    return Estimate(jobs, round(seconds, 1), memory, slots, disk, tuple(measured))


def _measured(jobs: Sequence[Job], known: Known, folder: SweepFolder) -> list[float]:
    """Seconds a unit of the jobs that are finished."""
    rates = []
    for job in jobs:
        amount = _units(job, known)
        if amount and folder.is_finished(job):
            manifest = RunFolder(folder.of(job)).manifest
            held = read_json(manifest, "delete its folder and run the same command again")
            if job.kind == "source":
                rates.append(sum(held["finished"][stage] for stage in COLLECTED) / amount)
            else:
                rates.append(held["seconds"] / amount)
    return rates


def _units(job: Job, known: Known) -> float | None:
    """Work of a job: a source's in 10^12 multiplications, a text's and others' in columns of 10^3 items."""
    size, n_items, config = known.sizes[job.config.model], known.n_items[job.cell], job.config
    if job.kind == "text":
        return n_items / 1000 * config.regroupings
    if size is None:
        return None
    if job.kind == "source":
        asked = 1 + 2 * config.paraphrases
        tokens = asked * PROMPT_TOKENS + config.samples * job.cell.task.max_new_tokens
        return size.parameters * n_items * tokens / 1e12
    cells = _n_layers(job, size.n_layers) * (
        len(config.positions) if job.cell.analysis.context == "task" else 2 * config.paraphrases
    )
    repeats = config.permutations / 100 if job.kind == "null" else config.regroupings
    return n_items / 1000 * cells * size.d_model / 1000 * repeats


def _n_layers(job: Job, of_model: int) -> int:
    layers = job.config.layers
    return of_model if layers == "all" else len(layers)


def _disk_bytes(job: Job, known: Known) -> float | None:
    size = known.sizes[job.config.model]
    if size is None:
        return None
    config = job.config
    layers = _n_layers(job, size.n_layers)
    task, report = config.task_spec(), config.report_spec()
    vectors = (layers + 1) * len(task.positions)
    vectors += layers * len(report.positions) * 2 * config.paraphrases
    return 2.0 * known.n_items[job.cell] * vectors * size.d_model


def _memory_bytes(job: Job, known: Known) -> float | None:
    if job.kind != "source":
        return PROCESS_BYTES
    size = known.sizes[job.config.model]
    if size is None:
        return None
    return PROCESS_BYTES + 1.2 * BYTES[job.config.dtype] * size.parameters

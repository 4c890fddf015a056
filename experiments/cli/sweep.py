"""`selfprobe sweep`: many models, tasks, contexts, probes and seeds, from one file."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.app import JsonFlag, app

if TYPE_CHECKING:
    from experiments.sweeps.engines import Engine
    from experiments.sweeps.estimate import Estimate
    from experiments.sweeps.runner import Sweep


class EngineName(StrEnum):
    """Where the work of a sweep runs."""

    IN_PROCESS = "in-process"
    CORES = "cores"
    RAY = "ray"


@app.command(
    epilog="Examples:\n\n"
    "`selfprobe sweep sweep.yaml --dry-run`\n\n"
    "`selfprobe sweep sweep.yaml --engine cores --workers 8 --out sweeps/mine`\n\n"
    "`selfprobe sweep sweep.yaml --engine ray --address auto --gpus-per-cell 1`"
)
def sweep(
    config: Annotated[
        Path,
        typer.Argument(
            help="A YAML file: `model`, `task`, `context`, `probe`, `seed` and the settings of a run; a list at "
            "any of them is a grid."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The sweep's folder. Default: sweeps/ and the file's name.")
    ] = None,
    engine: Annotated[
        EngineName,
        typer.Option(help="In this process, in processes over cores or GPUs, or on Ray."),
    ] = EngineName.IN_PROCESS,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes. Default: one a GPU, or else one a core."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, help="CPU threads of each worker. Default: the cores, shared evenly; on Ray 1."
        ),
    ] = None,
    gpus_per_cell: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="GPUs that a model is given; on Ray also parts of one. Default: 1 if there is any.",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of a running Ray cluster, `auto` for this machine's. Default: start one here."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="List the cells and what they will take; load and write nothing."
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run a sweep: every choice of models, tasks, contexts, probes and seeds is a cell, a row of one table.

    Finished cells are never done again: a sweep that was stopped, or to which a seed was added, goes on from there. A
    cell that fails is recorded, and the others go on.
    """
    from experiments.config import read_config
    from experiments.progress import reporter_for_stderr
    from experiments.sweeps.cells import make_cells
    from experiments.sweeps.checks import check_cells
    from experiments.sweeps.estimate import estimate
    from experiments.sweeps.folder import SweepFolder
    from experiments.sweeps.runner import run_sweep

    settings = read_config(config)
    cells = make_cells(settings)
    folder = SweepFolder(out or Path("sweeps") / config.stem)
    folder.check()
    known = check_cells(cells)
    with _engine(engine, workers, threads, gpus_per_cell, address) as chosen:
        if dry_run:
            _print_plan(folder, cells, estimate(cells, known, folder, chosen), as_json)
            return
        done = run_sweep(cells, settings, folder.path, chosen, reporter=reporter_for_stderr())
    _print_table(done, as_json)
    if len(done.failed):
        first = done.failed.iloc[0]
        raise RuntimeError(
            f"{len(done.failed)} of {len(done.table)} cells failed; the first, {first['cell']}: {first['reason']}; "
            f"every reason is in {done.folder.table}, and the same command tries them again"
        )


def _engine(
    name: EngineName,
    workers: int | None,
    threads: int | None,
    gpus: float | None,
    address: str | None,
) -> AbstractContextManager[Engine]:
    from experiments.sweeps.engines import Cores, InProcess

    if address is not None and name != EngineName.RAY:
        raise ValueError(f"address: engine {name.value!r} has none; add --engine ray")
    if name == EngineName.RAY:
        from experiments.sweeps.ray_engine import OnRay

        return OnRay(address, workers, threads, gpus)
    if gpus is not None and not gpus.is_integer():
        raise ValueError(
            f"gpus-per-cell: {gpus:g} is no whole number; parts of a GPU want --engine ray"
        )
    whole = None if gpus is None else int(gpus)
    if name == EngineName.CORES:
        return nullcontext(Cores(workers, threads, whole))
    if workers not in (None, 1):
        raise ValueError(f"workers: {workers}, but engine 'in-process' is one; add --engine cores")
    return nullcontext(InProcess(threads, whole))


def _print_plan(folder: Any, cells: Any, needed: Estimate, as_json: bool) -> None:
    from experiments.sweeps.cells import SETTINGS
    from experiments.sweeps.jobs import Job

    jobs = [Job("cell", cell) for cell in cells]
    rows = [(job, _status(folder, job)) for job in jobs]
    if as_json:
        listed = [
            {"cell": job.name, "status": status, "settings": job.settings} for job, status in rows
        ]
        print(json.dumps({"cells": listed, "estimate": needed.to_json()}, indent=2))
        return
    varied = [
        name
        for name in SETTINGS
        if name in jobs[0].settings and len({str(job.settings[name]) for job in jobs}) > 1
    ]
    for job, status in rows:
        shown = ", ".join(
            f"{name} {job.settings[name]}" for name in ("model", "task") if name not in varied
        )
        named = ", ".join(f"{name} {job.settings[name]}" for name in varied)
        print(f"{job.name}  {status:<6}  {', '.join(filter(None, (shown, named)))}")
    print(needed.sentence())


def _status(folder: Any, job: Any) -> str:
    if folder.is_finished(job):
        return "done"
    return "failed" if folder.read_failure(job) else "to do"


def _print_table(done: Sweep, as_json: bool) -> None:
    if as_json:
        print(done.folder.results.read_text(encoding="utf-8"), end="")
        return
    counts = done.table["status"].value_counts()
    print(", ".join(f"{counts.get(name, 0)} {name}" for name in ("done", "skipped", "failed")))
    print(f"table: {done.folder.table}")
    print(f"figure: {done.folder.figure.with_suffix('.png')}")

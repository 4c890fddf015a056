"""`selfprobe organisms`: the instrument's own test, on breakdowns that are planted and known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.app import JsonFlag, app

organisms_app = typer.Typer(help="Planted breakdowns: does the diagnosis find them?")
app.add_typer(organisms_app, name="organisms")


@organisms_app.callback()
def _group() -> None:
    """Keeps `certify` a command of its own name while it is the only one."""


@organisms_app.command(
    epilog="Examples:\n\n`selfprobe organisms certify`\n\n"
    "`selfprobe organisms certify --seeds 20 --effect-seeds 5 --n 600 --delta 0.08 --out certificate`\n\n"
    "`selfprobe organisms certify --seeds 0 --effect-seeds 0 --trained faithful=runs/faithful --json`"
)
def certify(
    seeds: Annotated[
        int, typer.Option(help="Of every stage and variant, at each number of items.")
    ] = 200,
    n: Annotated[
        list[int] | None,
        typer.Option(help="Items; give it several times. Default: 60, 600 and 1600."),
    ] = None,
    delta: Annotated[
        list[float] | None,
        typer.Option(
            help="Margin, one for all or one for every --n. Default: 0.08, from 1,600 items on 0.05."
        ),
    ] = None,
    effects: Annotated[
        str, typer.Option(help="Planted losses of the figure, in margins, separated by commas.")
    ] = "0,0.5,1,2,4",
    effect_seeds: Annotated[int, typer.Option(help="Of every stage and loss of the figure.")] = 25,
    trained: Annotated[
        list[str] | None,
        typer.Option(
            help="STAGE=RUN: a finished run on a trained organism; give it several times."
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; default one a core.")] = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of certificate.json, .csv, .png and .svg; what is in it is kept."
        ),
    ] = Path("certificate"),
    as_json: JsonFlag = False,
) -> None:
    """Print what was planted against what was diagnosed, and how often that is right, wrong or left open.

    Simulated states, margins and answers with a breakdown planted at each stage, scored and diagnosed as a run is. The
    numbers depend on the seeds alone. All of it takes about half an hour on 2 cores; the same command with the same
    --out picks up where it was stopped.
    """
    from experiments.organisms.certificate import Certificate, trained_rows
    from experiments.organisms.certify import Plan, sizes_of
    from experiments.organisms.certify import certify as run_plan
    from experiments.progress import reporter_for_stderr
    from experiments.records import make_folder

    if workers is not None and workers < 1:
        raise ValueError(f"workers: {workers} is not positive; give at least 1")
    plan = Plan(
        seeds=seeds,
        graded_seeds=effect_seeds,
        sizes=sizes_of(n, delta),
        multiples=_numbers("effects", effects),
    )
    rows = trained_rows(trained or ())
    make_folder("out", out)
    table = run_plan(plan, out, workers=workers, reporter=reporter_for_stderr())
    certificate = Certificate(table, tuple(rows))
    certificate.write(out)
    if as_json:
        print(json.dumps(certificate.to_json(), indent=2))
    else:
        print("\n".join([*certificate.lines(), f"written to {out}"]))


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{option}: {text!r} is no list of numbers such as 0,0.5,1") from None
    if not all(number >= 0 for number in numbers):
        raise ValueError(f"{option}: {text!r} holds one that is not 0 or more; leave it out")
    return numbers

"""`selfprobe causal`: interventions on the model of a finished run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli.app import JsonFlag, app


@app.command(
    epilog="Examples:\n\n`selfprobe causal runs/quickstart`\n\n"
    "`selfprobe causal runs/quickstart --task refusal --layer 18 --position prompt_last`\n\n"
    "`selfprobe causal runs/quickstart --task refusal --n-null 999 --json`"
)
def causal(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN")],
    task: Annotated[
        str | None, typer.Option(help="One task of the run. Default: all that were not skipped.")
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(help="The block to intervene at. Default: that of the run's probe."),
    ] = None,
    position: Annotated[
        str | None,
        typer.Option(
            help="The first token to change in every prompt, for example prompt_last; all after it are changed too. "
            "Default: where the run's probe reads."
        ),
    ] = None,
    n_null: Annotated[
        int, typer.Option(help="Random and shuffled-label directions behind a p-value, together.")
    ] = 199,
    n_items: Annotated[
        int, typer.Option(help="Items a task that are moved along the directions.")
    ] = 40,
    n_null_items: Annotated[
        int, typer.Option(help="Those of them that are moved along the null directions too.")
    ] = 16,
    seed: Annotated[
        int, typer.Option(help="Of halves, nulls, donors and the choice of items.")
    ] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Steer, ablate and patch along the probe's direction: does it move the behavior, and what is said of it?

    Writes causal.json and figures into the run's folder, and its page anew. A finished one is read back; a stopped one
    is picked up by the same command.
    """
    from experiments.causal import CausalSettings
    from experiments.causal import causal as intervene_on
    from experiments.finished import load_run
    from experiments.progress import reporter_for_stderr

    settings = CausalSettings(
        layer=layer,
        position=position,
        n_null=n_null,
        n_items=n_items,
        n_null_items=n_null_items,
        seed=seed,
    )
    run = load_run(folder)
    found = intervene_on(run, task, settings, reporter=reporter_for_stderr())
    run.write_report()
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for name, result in found["tasks"].items():
        _print_task(name, result)
    print(f"report: {run.folder.page}")
    print(f"results: {run.path / 'causal.json'}")


def _print_task(name: str, result: dict[str, Any]) -> None:
    from experiments.causal_record import DIRECTIONS, READOUTS
    from experiments.report.formatting import gain, p_value

    for note in result["notes"]:
        print(f"{name}: note: {note}")
    probe = result["dissociation"]
    for direction, table in (("probe", probe), ("diff_means", probe["diff_means"])):
        along = f"{name}: {DIRECTIONS[direction]}"
        for readout, row in table["rows"].items():
            p = p_value(row["p"], row["n_null"])
            print(f"{along}: {READOUTS[readout]} {gain(row)} nats, {p}: {row['moved']}")
        print(f"{along}: {table['sentence']}")

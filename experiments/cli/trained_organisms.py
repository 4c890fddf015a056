"""`selfprobe organisms build` and `trained`: small transformers with a planted breakdown, run and diagnosed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.app import JsonFlag
from experiments.cli.organisms import organisms_app

if TYPE_CHECKING:
    from experiments.organisms.trained import TrainedRow

_KINDS = "faithful, miscalibrated, not_beyond_text, not_read_out, not_transported or unparsed"
_Models = Annotated[
    Path | None,
    typer.Option(help="Where organisms are kept. Default: a part of selfprobe's cache."),
]


@organisms_app.command(epilog="Example:\n\n`selfprobe organisms build not_read_out`")
def build(
    kind: Annotated[str, typer.Argument(help=f"The stage that is planted: {_KINDS}.")],
    models: _Models = None,
) -> None:
    """Train an organism, if it is not there yet, and print its folder, for `selfprobe run xor --model FOLDER`."""
    from experiments.organisms.build import build as build_organism

    print(build_organism(kind, models))


@organisms_app.command(
    epilog="Examples:\n\n`selfprobe organisms trained`\n\n"
    "`selfprobe organisms trained --kind faithful --kind not_read_out --out runs/organisms`"
)
def trained(
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A stage that is planted ({_KINDS}); give it several times. Default: all."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs, one an organism.")] = Path(
        "runs/organisms"
    ),
    models: _Models = None,
    as_json: JsonFlag = False,
) -> None:
    """Train organisms, check what is planted by changing words and states, run them, and print their diagnoses.

    What was trained or run before is taken as it is. Each takes about two minutes on 2 cores.
    """
    from experiments.organisms.trained import certify_trained
    from experiments.progress import reporter_for_stderr

    rows = certify_trained(out, kinds=kind, models=models, reporter=reporter_for_stderr())
    if as_json:
        print(json.dumps([_as_json(row) for row in rows], indent=2))
        return
    for row in rows:
        held = "as planted" if row.verification.holds else "NOT AS PLANTED"
        print(f"{row.planted}: {held}; diagnosed {row.found.stage} ({row.verdict})")
        for check in row.verification.checks:
            print(f"  {check}")
    counts = Counter(row.verdict for row in rows)
    shown = ", ".join(
        f"{counts[verdict]} {verdict}" for verdict in ("right", "wrong", "undetermined")
    )
    print(f"of {len(rows)}: {shown}")


def _as_json(row: TrainedRow) -> dict[str, Any]:
    checks = [
        {"name": check.name, "value": check.value, "holds": check.holds}
        for check in row.verification.checks
    ]
    return {
        "planted": row.planted,
        "diagnosed": row.found.stage,
        "verdict": row.verdict,
        "run": str(row.run),
        "as_planted": row.verification.holds,
        "checks": checks,
    }

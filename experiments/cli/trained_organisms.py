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
_Base = Annotated[
    str | None,
    typer.Option(
        help="A language model that LoRA makes the organism of, by the names of `selfprobe models`: "
        "faithful, not_beyond_text or not_read_out. Default: a small transformer from scratch."
    ),
]


@organisms_app.command(
    epilog="Examples:\n\n`selfprobe organisms build not_read_out`\n\n"
    "`selfprobe organisms build not_read_out --base smollm2-135m`"
)
def build(
    kind: Annotated[str, typer.Argument(help=f"The stage that is planted: {_KINDS}.")],
    base: _Base = None,
    models: _Models = None,
) -> None:
    """Train an organism, if it is not there yet, and print its folder, for `selfprobe run xor --model FOLDER`."""
    from experiments.organisms.build import build as build_organism
    from experiments.organisms.lora_build import build_lora
    from experiments.progress import reporter_for_stderr

    if base is None:
        print(build_organism(kind, models))
    else:
        print(build_lora(kind, base, models, reporter=reporter_for_stderr()))


@organisms_app.command(
    epilog="Examples:\n\n`selfprobe organisms trained`\n\n"
    "`selfprobe organisms trained --kind faithful --kind not_read_out --out runs/organisms`\n\n"
    "`selfprobe organisms trained --base smollm2-135m --kind not_read_out`"
)
def trained(
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A stage that is planted ({_KINDS}); give it several times. Default: all."
        ),
    ] = None,
    base: _Base = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs, one an organism.")] = Path(
        "runs/organisms"
    ),
    models: _Models = None,
    as_json: JsonFlag = False,
) -> None:
    """Train organisms, check what is planted by changing words and states, run them, and print their diagnoses.

    What was trained or run before is taken as it is. Each takes about two minutes on 2 cores; with --base smollm2-135m
    training alone takes about 14 minutes on one core, and checks and a run of 300 items at least as long.
    """
    from experiments.organisms.trained import certify_trained
    from experiments.progress import reporter_for_stderr

    rows = certify_trained(
        out, kinds=kind, base=base, models=models, reporter=reporter_for_stderr()
    )
    if as_json:
        print(json.dumps([_as_json(row) for row in rows], indent=2))
        return
    for row in rows:
        held = "as planted" if row.verification.holds else "NOT AS PLANTED"
        print(f"{row.planted}: {held}; diagnosed {row.found.stage} ({row.verdict})")
        for check in row.verification.checks:
            print(f"  {check}")
        for skipped in row.verification.skipped:
            print(f"  not checked: {skipped}")
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
        "not_checked": list(row.verification.skipped),
    }

"""`selfprobe train-heads`: can it be taught to foretell itself, by a head or in words, on the same labels?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli.app import JsonFlag, app


@app.command(
    name="train-heads",
    epilog="Examples:\n\n`selfprobe train-heads --preset cpu --out teaching/first`\n\n"
    "`selfprobe train-heads teaching.yaml --out teaching/mine`\n\n"
    "`selfprobe train-heads teaching.yaml --out teaching/mine --workers 2 --json`",
)
def train_heads(
    config: Annotated[
        Path | None,
        typer.Argument(
            help="A YAML file: `tasks`, `model`, `methods`, `sizes`, `seeds` and the other settings "
            "(docs/self-prediction.md). Optional with --preset."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder of the comparison. Default: teaching/ and the file's name."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="Named settings that the file adds to: `cpu`, for two cores and no GPU."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes side by side, each with a model of its own."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Teach a model to foretell itself (probe, heads, fine-tuned words) and hold it against words, text, controls.

    All learn from the same items and labels and are tested on held-out groups, templates and tasks. A comparison that
    was stopped is picked up by the same command, within a training at its last checkpoint.
    """
    from experiments.config import read_config
    from experiments.progress import reporter_for_stderr
    from experiments.self_prediction.comparison import compare
    from experiments.self_prediction.config import make_teach_config

    if config is None and preset is None:
        raise ValueError("config: give a YAML file, or --preset cpu")
    settings = {} if config is None else read_config(config)
    if workers is not None:
        settings["workers"] = workers
    name = preset if config is None else config.stem
    folder = out or Path("teaching") / str(name)
    chosen = make_teach_config(settings, preset=preset)
    results = compare(chosen, folder, reporter=reporter_for_stderr())
    if as_json:
        print(json.dumps(results, indent=2, ensure_ascii=False))
        return
    _print(results, folder)


def _print(results: dict[str, Any], folder: Path) -> None:
    from experiments.report.formatting import estimate
    from experiments.self_prediction.table import method_label

    for row in results["rows"]:
        if row["test"] != "held_out_groups":
            continue
        auroc, skill = (estimate(row[name], row[f"{name}_ci"]) for name in ("auroc", "skill"))
        print(f"{row['task']}: {method_label(row)}: AUROC {auroc}, skill {skill}")
    print(f"table: {folder / 'table.md'}")
    print(f"results: {folder / 'results.json'}")
    print(f"figures: {folder / 'figures'}")

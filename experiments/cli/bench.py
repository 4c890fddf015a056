"""`selfprobe bench`: side by side with the alternatives, in one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli.app import app
from experiments.cli.outputs import check_output

bench_app = typer.Typer(
    help="Measure selfprobe side by side with the alternatives, in one process."
)
app.add_typer(bench_app, name="bench")

JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Also write the figures into this file.")
]


@bench_app.command(
    epilog="Examples:\n\n`selfprobe bench capture`\n\n"
    "`selfprobe bench capture --prompts prompts.csv --n 120 --json capture.json`"
)
def capture(
    prompts: Annotated[
        Path | None,
        typer.Option(
            help="JSON Lines or CSV, as `selfprobe capture` reads them. Default: our own items."
        ),
    ] = None,
    n: Annotated[int | None, typer.Option(help="The first so many of them.")] = None,
    model: Annotated[str, typer.Option(help="As `selfprobe run` takes it.")] = "smollm2-135m",
    json_file: JsonFile = None,
) -> None:
    """Time capture against a bare forward pass, output_hidden_states, run_with_cache and an nnsight trace.

    Ratios of times are medians over rounds in which the contestants take turns; 450 prompts on 2 cores take about six
    minutes.
    """
    from experiments.bench.capture import ROUNDS, bench_capture
    from experiments.progress import reporter_for_stderr
    from experiments.prompt_files import read_prompts
    from experiments.tasks import TASKS
    from hooks import load_model

    if n is not None and n < 1:
        raise ValueError(f"n: {n} is not positive")
    _check(json_file)
    chosen = (
        [row.prompt for row in read_prompts(prompts)]
        if prompts
        else [item.prompt() for item in TASKS["refusal"]().items()]
    )
    loaded = load_model(model)
    with reporter_for_stderr().stage("bench capture", ROUNDS + 1) as advance:
        figures = bench_capture(loaded, chosen[:n], advance=advance)
    _show(figures, json_file)


@bench_app.command(
    epilog="Examples:\n\n`selfprobe bench cache`\n\n"
    "`selfprobe bench cache --n 2000 --folder scratch --json cache.json`"
)
def cache(
    n: Annotated[int, typer.Option(help="Items; each takes 128 KiB.")] = 20_000,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Where to write, on the disk to be measured. Default: the temporary folder."
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Time the cache against numpy.save, plain reads and torch.save, over 32 layers x 2 positions x 1,024.

    By default 2.6 GB a contestant, deleted again; about three minutes on 2 cores.
    """
    from experiments.bench.cache import N_STEPS, bench_cache
    from experiments.progress import reporter_for_stderr

    _check(json_file)
    if folder is not None and not folder.is_dir():
        raise ValueError(f"folder: {folder} is no folder; make it first")
    with reporter_for_stderr().stage("bench cache", N_STEPS) as advance:
        figures = bench_cache(n_items=n, folder=folder, advance=advance)
    _show(figures, json_file)


@bench_app.command(
    epilog="Examples:\n\n`selfprobe bench probes`\n\n"
    "`selfprobe bench probes --n 400 --permutations 10 --json probes.json`"
)
def probes(
    n: Annotated[int, typer.Option(help="Items of our own, half of each task.")] = 800,
    permutations: Annotated[int, typer.Option(help="Of every target's labels.")] = 50,
    model: Annotated[str, typer.Option(help="As `selfprobe run` takes it.")] = "smollm2-135m",
    json_file: JsonFile = None,
) -> None:
    """Time a sweep of logistic probes against scikit-learn's in a pool over all cores, and compare what they find.

    Every layer x 2 positions x 3 targets x 5 folds x 5 penalties, with permuted labels.
    """
    from experiments.bench.probes import bench_probes
    from experiments.progress import reporter_for_stderr
    from hooks import load_model

    if permutations < 1:
        raise ValueError(f"permutations: {permutations} is not positive")
    _check(json_file)
    figures = bench_probes(
        load_model(model), n_items=n, n_permutations=permutations, reporter=reporter_for_stderr()
    )
    _show(figures, json_file)


@bench_app.command(
    epilog="Examples:\n\n`selfprobe bench behavior`\n\n"
    "`selfprobe bench behavior --rounds 3 --json behavior.json`"
)
def behavior(
    rounds: Annotated[int, typer.Option(help="Of four fresh prompts of each task.")] = 5,
    model: Annotated[str, typer.Option(help="As `selfprobe run` takes it.")] = "smollm2-135m",
    json_file: JsonFile = None,
) -> None:
    """Time the collection of labels against transformers' `generate` to the full length, with a prompt a sample.

    Refusal and difficulty items, 8 samples each, 64 tokens at most; about four minutes on 2 cores.
    """
    from experiments.bench.behavior import DECIDED, bench_behavior
    from experiments.progress import reporter_for_stderr
    from hooks import load_model

    if rounds < 1:
        raise ValueError(f"rounds: {rounds} is not positive")
    _check(json_file)
    loaded = load_model(model)
    with reporter_for_stderr().stage("bench behavior", len(DECIDED) * rounds) as advance:
        figures = bench_behavior(loaded, rounds=rounds, advance=advance)
    _show(figures, json_file)


def _check(json_file: Path | None) -> None:
    if json_file is not None:
        check_output("json", json_file)


def _show(figures: Any, json_file: Path | None) -> None:
    print("\n".join(figures.lines()))
    if json_file is not None:
        json_file.write_text(json.dumps(figures.to_dict(), indent=2) + "\n", encoding="utf-8")

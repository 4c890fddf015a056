"""`selfprobe run` and `selfprobe report`: the main job, and its page drawn anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.app import JsonFlag, app

if TYPE_CHECKING:
    from experiments.config import RunConfig


@app.command(
    epilog="Examples:\n\n"
    "`selfprobe run refusal --out runs/refusal`\n\n"
    "`selfprobe run refusal difficulty --preset quickstart --out runs/quickstart`\n\n"
    "`selfprobe run counterfactual --n 60 --out runs/counterfactual`\n\n"
    "`selfprobe run difficulty --items my-questions.jsonl --layers 10-20 --out runs/mine`\n\n"
    "`selfprobe run refusal --items xstest/prompts.csv --columns text=prompt,stratum=type`\n\n"
    "`selfprobe run refusal --endpoint https://HOST/v1 --model NAME --rpm 60 --dry-run`"
)
def run(
    tasks: Annotated[
        list[str] | None, typer.Argument(help="Tasks or families, as `selfprobe tasks` lists them.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A name from `selfprobe models`, a hub id, a folder or a .gguf file; with --endpoint its name there. "
            "Default: smollm2-135m."
        ),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            help="Base URL of an OpenAI-compatible chat endpoint: words alone, no activations. Its key is read from "
            "OPENAI_API_KEY. Default: none."
        ),
    ] = None,
    rpm: Annotated[
        float | None,
        typer.Option(help="Requests a minute to the endpoint, at most. Default: no limit."),
    ] = None,
    peer: Annotated[
        str | None,
        typer.Option(
            help="Another model to read the same items: is the model's own state worth more? Names as for --model. "
            "Default: none."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/TASKS.")] = None,
    n: Annotated[
        int | None,
        typer.Option(help="Items a task, 20 or more, whole groups. Default: all."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of folds, permutations and sampling. Default: 0.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="`quickstart`: 320 items a task, two paraphrases.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="A YAML file of settings: those below and dtype, samples, paraphrases, folds, "
            "regroupings, permutations."
        ),
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            help="Your own items: JSON Lines or CSV with `text` or `messages`, and `answers` or `choices` where the "
            "task needs them."
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Which columns of --items hold what: `text=prompt,group=pair,stratum=type`. "
            "Default: columns of the same name."
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            help="Completions an item: 1 is greedy, more are sampled. Default: 1, or what the task needs."
        ),
    ] = None,
    answer_revealed: Annotated[
        bool | None,
        typer.Option(
            "--answer-revealed",
            help="Show the reference answer in the self-prediction prompts: a condition of its own.",
        ),
    ] = None,
    other_contexts: Annotated[
        bool | None,
        typer.Option(
            "--other-contexts",
            help="Ask about another assistant and about the input itself too; with four paraphrases it is done anyway. "
            "Can be added to a finished run, as --peer can.",
        ),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(
            help="embed, resid_pre, resid_mid, resid_post, attn_out, mlp_out or final_norm. "
            "Default: resid_post."
        ),
    ] = None,
    layers: Annotated[str | None, typer.Option(help="all, or blocks such as 0,4,10-20.")] = None,
    positions: Annotated[
        str | None,
        typer.Option(
            help="Of the task prompt: instruction_last, mean_instruction, template_1 ..., prompt_last, "
            "separated by commas. Default: all but template_k."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the prompts that would be put (the first few; all with --json) and how many there are; "
            "ask nothing, write nothing.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run the main job: behavior, self-predictions, probes, contrast and the stage diagnosis.

    Options win over the config file, and both over the preset. A folder that holds the same run is picked up where
    it stopped; a finished one is read back, and given what it lacks (a peer, other contexts) without the rest being
    done again.
    """
    from experiments.config import make_config, read_config
    from experiments.progress import reporter_for_stderr
    from experiments.run import Experiment

    settings: dict[str, Any] = read_config(config) if config else {}
    given = {
        "tasks": tasks or None,
        "model": model,
        "endpoint": endpoint,
        "requests_per_minute": rpm,
        "peer": peer,
        "n": n,
        "seed": seed,
        "items": items,
        "columns": columns,
        "samples": samples,
        "answer_revealed": answer_revealed,
        "other_contexts": other_contexts,
        "site": site,
        "layers": layers,
        "positions": positions,
    }
    settings |= {name: value for name, value in given.items() if value is not None}
    if not settings.get("tasks"):
        raise ValueError("tasks: none given; `selfprobe tasks` lists them")
    asked = make_config(settings, preset=preset)
    if dry_run:
        _print_dry_run(asked, as_json)
        return
    if asked.endpoint is not None:
        _tell_costs(asked)
    folder = out or Path("runs") / "-".join(asked.tasks)
    finished = Experiment.from_config(asked).run(folder, reporter=reporter_for_stderr())
    if as_json:
        print(json.dumps(finished.results, indent=2, ensure_ascii=False))
    else:
        _print_summary(finished)


@app.command(epilog="Example:\n\n`selfprobe report runs/quickstart`")
def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="DIR")],
    as_json: JsonFlag = False,
) -> None:
    """Draw the figures and the page of a finished run anew, and print its verdicts."""
    from experiments.finished import load_run

    finished = load_run(folder)
    finished.write_report()
    if as_json:
        print(json.dumps(finished.results, indent=2, ensure_ascii=False))
    else:
        _print_summary(finished)


def _print_dry_run(asked: RunConfig, as_json: bool) -> None:
    from experiments.dry_run import dry_run

    listed = dry_run(asked)
    if as_json:
        print(json.dumps([one.to_json() for one in listed], indent=2, ensure_ascii=False))
        return
    for one in listed:
        print("\n".join(one.lines()))
    print("\nNothing was asked and nothing was written.")


def _tell_costs(asked: RunConfig) -> None:
    """How many requests an endpoint would get, before it gets any."""
    from experiments.dry_run import dry_run

    total = 0
    for one in dry_run(asked):
        print(one.summary(), file=sys.stderr)
        total += one.n_requests
    pace = asked.requests_per_minute
    least = f", {total / pace:.0f} minutes or more at {pace:g} a minute" if pace else ""
    print(f"{asked.endpoint}: {total} requests, less what the folder holds{least}", file=sys.stderr)


def _print_summary(finished: Any) -> None:
    from experiments.report import run_notes, verdict_sentence, words_advice

    for note in run_notes(finished.results):
        print(f"note: {note}")
    for name, result in finished.results["tasks"].items():
        print(f"{name}: {verdict_sentence(finished.results['model'], result)}")
        if advice := words_advice(result):
            print(f"{name}: {advice}")
    print(f"report: {finished.folder.page}")
    print(f"results: {finished.folder.results}")

"""`selfprobe probe`: a user's own labels, read off a user's own cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from experiments.cli.app import JsonFlag, app

_LISTED = 5


@app.command(
    epilog="Examples:\n\n"
    "`selfprobe probe --cache cache --labels labels.csv --prompts prompts.jsonl --out probes/mine`\n\n"
    "`selfprobe probe --cache cache --labels rates.csv --kind rate --out probes/rate`\n\n"
    "`selfprobe probe --cache cache --labels labels.csv --group-column template --probe lda --out probes/lda`"
)
def probe(
    cache: Annotated[Path, typer.Option(help="A cache, as `selfprobe capture` writes it.")],
    labels: Annotated[Path, typer.Option(help="CSV: `id`, `label` and optionally `group`.")],
    out: Annotated[Path, typer.Option(help="Where results, figures and the probe go.")],
    kind: Annotated[
        Literal["binary", "rate", "classes"],
        typer.Option(help="Of labels: 0 and 1, numbers, or names of classes."),
    ] = "binary",
    prompts: Annotated[
        Path | None,
        typer.Option(
            help="The prompts that the cache was captured from: what their text alone says is then held against "
            "the probe."
        ),
    ] = None,
    probe: Annotated[
        Literal["ridge", "logistic", "lda", "diff_means"],
        typer.Option(help="What is fitted to labels of 0 and 1."),
    ] = "ridge",
    label_column: Annotated[str, typer.Option(help="The column of labels.")] = "label",
    group_column: Annotated[
        str | None,
        typer.Option(
            help="The column of groups, which splits keep whole. Default: `group`, or else those of the cache."
        ),
    ] = None,
    allow_unlabeled: Annotated[
        bool,
        typer.Option("--allow-unlabeled", help="Leave items of the cache without a label out."),
    ] = False,
    folds: Annotated[int, typer.Option(min=3, help="Outer folds.")] = 5,
    regroupings: Annotated[int, typer.Option(min=1, help="Times that folds are drawn.")] = 5,
    permutations: Annotated[
        int, typer.Option(min=199, help="Whole-group permutations for the p-value.")
    ] = 199,
    seed: Annotated[int, typer.Option(min=0, help="Of folds and permutations.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Probe your own labels: the cell is selected on inner folds, with an interval and a permutation p-value.

    A label that is decodable need not be so beyond what the text says: give --prompts to find out. A folder that holds
    the same probe is read back, one of another question refused.
    """
    from activations_cache import ActivationsCache
    from experiments.labeled.folder import ProbeFolder, asked_of
    from experiments.labeled.labels import read_labels, texts_of
    from experiments.labeled.measured import ProbeSettings
    from experiments.labeled.probe import check_kind, probe_labels
    from experiments.progress import reporter_for_stderr
    from experiments.prompt_files import read_prompts

    settings = ProbeSettings(probe, folds, regroupings, permutations, seed)
    check_kind(kind, settings)
    held = ActivationsCache.open(cache)
    if out.resolve() == cache.resolve():
        raise ValueError(f"out: {out} is the cache; name another folder")
    rows = None if prompts is None else {row.prompt.id: row for row in read_prompts(prompts)}
    found = read_labels(
        labels,
        held.ids,
        kind=kind,
        label_column=label_column,
        group_column=group_column,
        groups_file=cache / "prompts.csv",
        prompt_groups=None if rows is None else {id: row.group for id, row in rows.items()},
        allow_unlabeled=allow_unlabeled,
        n_folds=folds,
    )
    texts = None if rows is None or prompts is None else texts_of(prompts, rows, found.ids)
    folder, asked = ProbeFolder(out), asked_of(held, found, settings, texts)
    result = folder.finished(asked)
    if result is None:
        with folder.claimed():
            result = folder.finished(asked)  # of a process that was at work there until now
            if result is None:
                reporter = reporter_for_stderr()
                probed = probe_labels(held, found, settings, texts=texts, reporter=reporter)
                folder.write(probed, asked)
                result = probed.result
    if as_json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        _report(result, out)


def _report(result: dict[str, Any], out: Path) -> None:
    from experiments.report.formatting import counted, gain, p_value

    row = result["probe"]
    cell = "/".join(str(row[name]) for name in ("site", "layer", "position"))
    counts = counted(result["n_items"], result["n_groups"])
    p = p_value(row["p_max"], row["n_permutations"])
    approximate = " (interval approximate)" if row["approximate"] else ""
    print(
        f"{_score(result, row)}, {p}, most often at {cell}; {counts}{_labels(result)}{approximate}"
    )
    if result["baselines"] is None:
        print("text: no text baseline was run; give --prompts to see what the text alone says")
    else:
        print(f"text alone: {_score(result, result['baselines']['text'])}")
    if result["gap"]:
        of = " in R-squared" if result["kind"] == "rate" else ""
        print(f"beyond the text: {gain(result['gap']['beyond_text'])}{of}")
    for name, control in result["controls"].items():
        print(f"{name.replace('_', ' ')}: {_score(result, control)}")
    if result["unlabeled"]:
        print(_counted_out("without a label, left out", result["unlabeled"]))
    print(f"results: {out / 'results.json'}")


def _score(result: dict[str, Any], row: dict[str, Any]) -> str:
    from experiments.report.formatting import estimate
    from experiments.report.metric import metric_of

    metric = metric_of(result)
    if row.get(metric.key) is None:
        return f"not scored ({row.get('reason')})"
    text = f"{metric.label} {estimate(row[metric.key], row['ci'])}"
    for key, label in (("r2", "R-squared"), ("balanced_accuracy", "balanced accuracy")):
        if key in row:
            text += f", {label} {estimate(row[key], row[f'{key}_ci'])}"
    return text


def _labels(result: dict[str, Any]) -> str:
    if result["kind"] == "binary":
        return f", {result['base_rate']:.0%} of label 1"
    if result["kind"] == "rate":
        return f", mean {result['mean']:.4g}, standard deviation {result['spread']:.4g}"
    return f", {len(result['classes'])} classes"


def _counted_out(what: str, ids: list[str]) -> str:
    more = ", ..." if len(ids) > _LISTED else ""
    return f"{what}, {len(ids)}: {', '.join(ids[:_LISTED])}{more}"

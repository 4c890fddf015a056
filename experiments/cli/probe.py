"""`selfprobe probe`: a user's own labels, read off a user's own cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli.app import JsonFlag, app


@app.command(
    epilog="Examples:\n\n"
    "`selfprobe probe --cache cache --labels labels.csv --out probes/mine`\n\n"
    "`selfprobe probe --cache cache --labels labels.csv --group-column template --out probes/mine`"
)
def probe(
    cache: Annotated[Path, typer.Option(help="A cache, as `selfprobe capture` writes it.")],
    labels: Annotated[
        Path, typer.Option(help="CSV: `id`, `label` (0 or 1) and optionally `group`.")
    ],
    out: Annotated[Path, typer.Option(help="Where results, figures and the probe go.")],
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

    A label that is decodable need not be so beyond what the text says: a cache holds no text, so no baseline is here.
    """
    from activations_cache import ActivationsCache
    from experiments.label_files import read_labels
    from experiments.labeled_probe import probe_labels
    from experiments.progress import reporter_for_stderr

    held = ActivationsCache.open(cache)
    if out.exists() and not out.is_dir():
        raise ValueError(f"out: {out} is a file; name a folder")
    if out.resolve() == cache.resolve():
        raise ValueError(f"out: {out} is the cache; name another folder")
    found = read_labels(
        labels,
        held.ids,
        label_column=label_column,
        group_column=group_column,
        groups_file=cache / "prompts.csv",
        allow_unlabeled=allow_unlabeled,
        n_folds=folds,
    )
    probed = probe_labels(
        held,
        found,
        n_folds=folds,
        n_regroupings=regroupings,
        n_permutations=permutations,
        seed=seed,
        reporter=reporter_for_stderr(),
    )
    probed.write(out)
    _report(probed.result, out, as_json)


def _report(result: dict[str, Any], out: Path, as_json: bool) -> None:
    from experiments.report.formatting import auroc, counted, p_value

    if as_json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
        return
    row = result["probe"]
    cell = "/".join(str(row[name]) for name in ("site", "layer", "position"))
    print(
        f"AUROC {auroc(row)}, {p_value(row['p_max'], row['n_permutations'])}, most often at {cell}; "
        f"{counted(result['n_items'], result['n_groups'])}, {result['base_rate']:.0%} of label 1"
        + (" (interval approximate)" if row["approximate"] else "")
    )
    left = result["unlabeled"]
    if left:
        more = ", ..." if len(left) > 5 else ""
        print(f"without a label, left out, {len(left)}: {', '.join(left[:5])}{more}")
    print(f"results: {out / 'results.json'}")

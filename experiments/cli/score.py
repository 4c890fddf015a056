"""`selfprobe score`: released results of others, scored anew with controls and intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from experiments.cli.app import JsonFlag, app

score_app = typer.Typer(help="Score released results anew, with controls and intervals.")
self_execution_app = typer.Typer(help="Of the Self-Execution Benchmark (arXiv 2508.12277).")
app.add_typer(score_app, name="score")
score_app.add_typer(self_execution_app, name="self-execution")


@self_execution_app.command(
    epilog="Examples:\n\n"
    "`selfprobe score self-execution refusal refusal/output_data_*.csv --prompts xstest/prompts.csv`\n\n"
    "`selfprobe score self-execution refusal refusal/output_data_*.csv --prompts xstest/prompts.csv "
    "--csv scores.csv --figure scores`"
)
def refusal(
    files: Annotated[
        list[Path],
        typer.Argument(help="A CSV file a model, as released.", metavar="FILE..."),
    ],
    prompts: Annotated[
        Path, typer.Option(help="XSTest's prompts.csv, with the columns `type` and `label`.")
    ],
    cluster: Annotated[
        Literal["pair", "type"],
        typer.Option(help="What intervals are clustered on: contrast pairs, or types of prompt."),
    ] = "pair",
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Also write a row a predictor into this file.")
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Also draw FIGURE.png and FIGURE.svg, of the lenient reading."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Predict refusal: does a model's own prediction beat the safe/unsafe label, or the other models' behavior?

    Strict counts a prompt without a prediction or a judged behavior as wrong, lenient leaves it out.
    """
    import pandas as pd

    from experiments.records import write_text
    from experiments.self_execution import (
        read_refusal_run,
        read_xstest,
        refusal_json,
        refusal_text,
        score_refusal,
        score_rows,
        write_refusal_figure,
    )

    for name, path in (("csv", csv_file), ("figure", figure)):
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"{name}: no folder {path.parent}; make it first")
    asked = read_xstest(prompts)
    scores = score_refusal(
        [read_refusal_run(path, asked) for path in files], asked, cluster=cluster
    )
    if csv_file is not None:
        write_text(csv_file, pd.DataFrame(score_rows(scores)).to_csv(index=False))
    if figure is not None:
        write_refusal_figure(scores, figure, "lenient")
    if as_json:
        print(json.dumps(refusal_json(scores, cluster), indent=2, ensure_ascii=False))
    else:
        print(refusal_text(scores))

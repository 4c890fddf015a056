"""`selfprobe score`: released results of others, scored anew with controls and intervals."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from experiments.cli.app import app
from experiments.cli.outputs import check_output

if TYPE_CHECKING:
    from experiments.self_execution import Report

score_app = typer.Typer(help="Score released results anew, with controls and intervals.")
self_execution_app = typer.Typer(help="Of the Self-Execution Benchmark (arXiv 2508.12277).")
app.add_typer(score_app, name="score")
score_app.add_typer(self_execution_app, name="self-execution")

_STDOUT = Path("-")

Files = Annotated[
    list[Path], typer.Argument(help="A CSV file a model, as released.", metavar="FILE...")
]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Also write everything into this file; - prints it alone."),
]
CsvFile = Annotated[
    Path | None, typer.Option("--csv", help="Also write a row a predictor into this file.")
]
Figure = Annotated[Path | None, typer.Option(help="Also draw FIGURE.png and FIGURE.svg.")]
PublishedFile = Annotated[
    Path | None,
    typer.Option(
        help="A table of published figures: print every one that does not come out, with the reason. Exit status 1 "
        "where one is unexplained."
    ),
]


@dataclass(frozen=True)
class Outputs:
    """Where a report goes besides the terminal."""

    json: Path | None
    csv: Path | None
    figure: Path | None
    published: Path | None

    def check(self, read: Iterable[Path | None]) -> None:
        """Raise ValueError unless all can be written, over none of the files that are `read` nor over each other."""
        written = [("json", None if self.json == _STDOUT else self.json), ("csv", self.csv)]
        if self.figure is not None:
            if not self.figure.name:
                raise ValueError(
                    f"figure: {self.figure} has no name; give it one, without a suffix"
                )
            name = self.figure.name
            written += [("figure", self.figure.with_name(name + end)) for end in (".png", ".svg")]
        taken: set[Path] = set()
        for option, path in written:
            if path is None:
                continue
            check_output(option, path, read=(*read, self.published))
            if path.resolve() in taken:
                raise ValueError(f"{option}: {path} is given twice; give a file an output")
            taken.add(path.resolve())


@self_execution_app.command(
    epilog="Example:\n\n"
    "`selfprobe score self-execution association association/*-*.csv --published association/published.csv "
    "--json association.json`"
)
def association(
    files: Files,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    figure: Figure = None,
    published: PublishedFile = None,
) -> None:
    """Predict associations: does a model's own prediction beat "never listed", or what other models say and do?"""
    from experiments.self_execution import (
        association_report,
        read_association_run,
        score_association,
    )

    outputs = Outputs(json_file, csv_file, figure, published)
    outputs.check(files)
    runs = [read_association_run(path) for path in files]
    _deliver(association_report(score_association(runs)), outputs)


@self_execution_app.command(
    epilog="Examples:\n\n"
    "`selfprobe score self-execution refusal refusal/output_data_*.csv --prompts xstest/prompts.csv`\n\n"
    "`selfprobe score self-execution refusal refusal/output_data_*.csv --prompts xstest/prompts.csv "
    "--published refusal/published.csv --csv scores.csv --figure scores`"
)
def refusal(
    files: Files,
    prompts: Annotated[
        Path | None,
        typer.Option(
            help="XSTest's prompts.csv, with the columns `type` and `label`. By default one near the files is taken: "
            "beside them, or in a folder `xstest` up to three folders up; without any there are no labels and no pairs."
        ),
    ] = None,
    cluster: Annotated[
        Literal["pair", "type", "prompt"] | None,
        typer.Option(
            help="What intervals are clustered on: contrast pairs (by default), types of prompt, or prompts (without "
            "prompts.csv)."
        ),
    ] = None,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    figure: Figure = None,
    published: PublishedFile = None,
) -> None:
    """Predict refusal: does a model's own prediction beat the safe/unsafe label, or what other models say and do?

    Strict counts a prompt without a prediction or a judged behavior as wrong, lenient leaves it out.
    """
    from experiments.self_execution import (
        find_prompts,
        read_refusal_run,
        read_xstest,
        refusal_report,
        score_refusal,
    )

    outputs = Outputs(json_file, csv_file, figure, published)
    found = find_prompts(files) if prompts is None else prompts
    outputs.check((*files, found))
    asked = None if found is None else read_xstest(found)
    by = cluster or ("prompt" if asked is None else "pair")
    runs = [read_refusal_run(path, asked) for path in files]
    report = refusal_report(score_refusal(runs, asked, cluster=by), by)
    _deliver(report, outputs, prompts=found)


@self_execution_app.command(
    epilog="Example:\n\n"
    "`selfprobe score self-execution difficulty difficulty/*_question_sets.csv --published difficulty/published.csv "
    "--json difficulty.json`"
)
def difficulty(
    files: Files,
    questions: Annotated[
        Path | None,
        typer.Option(
            help="The benchmark's question_groups.csv; by default the one beside the files. Without it there is no "
            "baseline of question length, and measured orders are not counted anew."
        ),
    ] = None,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    figure: Figure = None,
    published: PublishedFile = None,
) -> None:
    """Rank questions by difficulty: does a model's own order beat the questions' length, or what others find hard?

    Files are `*_question_sets.csv`; `*_individual_results.csv` beside one is read as well. Strict scores a group
    without a ranking as 0, lenient leaves it out.
    """
    from experiments.self_execution import (
        GROUPS_FILE,
        difficulty_report,
        read_difficulty_run,
        read_questions,
        score_difficulty,
    )

    outputs = Outputs(json_file, csv_file, figure, published)
    beside = files[0].with_name(GROUPS_FILE)
    found = questions or (beside if beside.is_file() else None)
    outputs.check((*files, found))
    known = None if found is None else read_questions(found)
    runs = [read_difficulty_run(path) for path in files]
    _deliver(difficulty_report(score_difficulty(runs, known), known), outputs, questions=found)


def _deliver(report: Report, outputs: Outputs, **used: Path | None) -> None:
    """Print and write a report; leave with status 1 where a published figure is unexplained.

    Args:
        report: the scores of a task's files.
        outputs: where they go.
        used: files that were read besides, by the option that names them.
    """
    import pandas as pd

    from experiments.records import write_json, write_text
    from experiments.self_execution import (
        compare_published,
        comparison_json,
        comparison_lines,
        read_published,
    )

    comparison = None
    everything = report.json | {name: path and str(path) for name, path in used.items()}
    if outputs.published is not None:
        comparison = compare_published(report.figures, read_published(outputs.published))
        everything = everything | {"published": comparison_json(comparison)}
    if outputs.csv is not None:
        write_text(outputs.csv, pd.DataFrame(report.rows).to_csv(index=False))
    if outputs.figure is not None:
        report.draw(outputs.figure)
    if outputs.json == _STDOUT:
        print(json.dumps(everything, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        if outputs.json is not None:
            write_json(outputs.json, everything)
        print(report.text)
        for name, path in used.items():
            print(f"\n{name}: {path or 'none'}")
        if comparison is not None:
            print("\nagainst the published figures\n", *comparison_lines(comparison), sep="\n")
    if comparison is not None and comparison.n_unexplained:
        raise typer.Exit(1)

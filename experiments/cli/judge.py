"""`selfprobe judge`: label completions that somebody else's model wrote."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.app import JsonFlag, app
from experiments.cli.outputs import check_output

if TYPE_CHECKING:
    from experiments.behavior.refusal import Agreement

judge_app = typer.Typer(help="Label completions, whoever wrote them.")
app.add_typer(judge_app, name="judge")


@judge_app.callback()
def _judge() -> None:
    """Label completions, whoever wrote them."""


@judge_app.command(
    epilog="Examples:\n\n"
    "`selfprobe judge refusal completions.csv --out judged.csv`\n\n"
    "`selfprobe judge refusal completions.csv --prompt-column prompt --text-column completion --out judged.csv "
    "--label-column final_label`"
)
def refusal(
    file: Annotated[Path, typer.Argument(help="CSV with a header, or JSON Lines.", metavar="FILE")],
    out: Annotated[Path, typer.Option(help="All rows, with `label` and `score` added.")],
    text_column: Annotated[str, typer.Option(help="What the model wrote.")] = "completion",
    prompt_column: Annotated[
        str | None, typer.Option(help="What was asked; it makes the labels better. Default: none.")
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(help="What people said: agreement with it is shown. Default: none."),
    ] = None,
    judge_model: Annotated[
        str | None,
        typer.Option(help="A local model as one more judge, named as for `run`. Default: none."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Refusal: comply, partial or refuse, and a score from 0 (complies) to 1 (refuses).

    Rules and a classifier that comes along judge each row, and where they differ the surer one decides. A row without
    text is `partial` with score 0.5.
    """
    from experiments.behavior.refusal import (
        LABELS,
        ModelJudge,
        agreement,
        judge_refusals,
        pairwise_kappas,
        read_completions,
    )

    check_output("out", out, read=(file,))
    rows = read_completions(file, text_column, prompt_column, label_column)
    more = []
    if judge_model is not None:
        from hooks import load_model

        more.append(ModelJudge(load_model(judge_model), judge_model))
    verdicts = judge_refusals(rows.completions, rows.prompts, more)
    rows.write(out, verdicts)
    given = [verdict.label for verdict in verdicts]
    votes = {judge: [v.votes[judge] for v in verdicts] for judge in verdicts[0].votes}
    counted = Counter(given)
    result = {
        "rows": len(given),
        "empty": rows.n_empty,
        "counts": {label: counted[label] for label in LABELS},
        "kappa_of_judges": pairwise_kappas(votes),
        "against_labels": None if rows.labels is None else agreement(rows.labels, given),
    }
    print(_as_json(result) if as_json else _as_text(result, label_column, out))


def _as_json(result: Mapping[str, Any]) -> str:
    from experiments.records import json_number

    found: Agreement | None = result["against_labels"]
    scored = None if found is None else asdict(found)
    if scored is not None:
        scored = {k: json_number(v) if isinstance(v, float) else v for k, v in scored.items()}
    kappas = {pair: json_number(kappa) for pair, kappa in result["kappa_of_judges"].items()}
    return json.dumps(
        {**result, "kappa_of_judges": kappas, "against_labels": scored},
        indent=2,
        ensure_ascii=False,
    )


def _as_text(result: Mapping[str, Any], label_column: str | None, out: Path) -> str:
    counts = ", ".join(f"{n} {label}" for label, n in result["counts"].items())
    empty = f" ({result['empty']} without text, counted as partial)" if result["empty"] else ""
    lines = [f"{result['rows']} rows: {counts}{empty}; written to {out}"]
    lines += [
        f"Cohen's kappa of {pair}: {_kappa(kappa)}"
        for pair, kappa in result["kappa_of_judges"].items()
    ]
    found: Agreement | None = result["against_labels"]
    if found is not None:
        lines += ["", f"Against {label_column}:", *_agreement_lines(found)]
    return "\n".join(lines)


def _kappa(kappa: float) -> str:
    return f"{kappa:.3f}" if isfinite(kappa) else "undefined (one label alone)"


def _agreement_lines(found: Agreement) -> list[str]:
    from experiments.behavior.refusal import LABELS

    binary = (
        ("full refusal or not", found.refusal_accuracy, found.refusal_kappa),
        ("full compliance or not", found.noncompliance_accuracy, found.noncompliance_kappa),
        ("three labels", found.accuracy, found.kappa),
    )
    lines = [f"  {name:<23} accuracy {a:.3f}, kappa {_kappa(k)}" for name, a, k in binary]
    lines.append(f"  {'macro-F1':<23} {found.macro_f1:.3f}")
    lines.append("  true \\ given" + "".join(f"{label:>9}" for label in LABELS))
    lines += [
        f"  {label:<12}" + "".join(f"{n:>9}" for n in row)
        for label, row in zip(LABELS, found.confusion, strict=True)
    ]
    return lines

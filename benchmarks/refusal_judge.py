"""The refusal judge against XSTest's human labels: `python benchmarks/refusal_judge.py [FOLDER] [MODEL ...]`.

FOLDER holds XSTest's completions_MODEL.csv; default ../shared/data/xstest. Prints Markdown tables: agreement of the
judge with and without prompts, of its two members, and of the two people with each other; then confusion matrices.
MODEL defaults to the two files that the rules were tuned on; mistralinstruct is held out and has to be named,
so that nobody tunes on it by habit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.behavior.refusal import LABELS, Agreement, agreement, judge_refusals
from experiments.behavior.refusal.agreement import plain_label

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "xstest"
TUNED_ON = ("gpt4", "llama2orig")
HEADER = (
    "| completions | labels | full refusal: accuracy | kappa | not full compliance: accuracy | kappa "
    "| three labels: kappa | macro-F1 |\n|---|---|---|---|---|---|---|---|"
)


def main(folder: Path, models: Sequence[str]) -> None:
    matrices: list[str] = []
    print(HEADER)
    for model in models:
        rows = pd.read_csv(folder / f"completions_{model}.csv")
        texts, prompts = list(rows["completion"]), list(rows["prompt"])
        people = {name: labels(rows[name]) for name in ("annotation_1", "annotation_2")}
        true = labels(rows["final_label"])
        verdicts = judge_refusals(texts, prompts)
        judged = agreement(true, [verdict.label for verdict in verdicts])
        blind = [verdict.label for verdict in judge_refusals(texts)]
        print(row(model, "**judge**", judged))
        print(row(model, "judge, no prompts", agreement(true, blind)))
        for name in ("rules", "classifier"):
            votes = [verdict.votes[name] for verdict in verdicts]
            print(row(model, f"{name} alone", agreement(true, votes)))
        print(row(model, "one person against the other", agreement(*people.values())))
        matrices.append(matrix(model, judged))
    print("\n" + "\n\n".join(matrices))


def labels(column: pd.Series[str]) -> list[str]:
    return [plain_label(written) or "" for written in column]


def row(model: str, name: str, found: Agreement) -> str:
    numbers = (
        found.refusal_accuracy,
        found.refusal_kappa,
        found.noncompliance_accuracy,
        found.noncompliance_kappa,
        found.kappa,
        found.macro_f1,
    )
    return f"| {model} | {name} | " + " | ".join(f"{number:.3f}" for number in numbers) + " |"


def matrix(model: str, found: Agreement) -> str:
    lines = [f"| {model}: people, judge | " + " | ".join(LABELS) + " |", "|---|---|---|---|"]
    lines += [
        f"| {label} | " + " | ".join(map(str, counts)) + " |"
        for label, counts in zip(LABELS, found.confusion, strict=True)
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    main(where, sys.argv[2:] or TUNED_ON)

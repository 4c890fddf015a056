"""A user's file of completions, judged row by row: the same rows in the same order, with `label` and `score` added."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.behavior.refusal.agreement import plain_label
from experiments.behavior.refusal.judge import RefusalVerdict
from experiments.csv_files import csv_header, csv_rows
from experiments.records import numbered_rows, write_rows, write_text

ADDED = ("label", "score")


@dataclass(frozen=True)
class CompletionFile:
    """Rows of a CSV or JSON Lines file, and what is to be judged of them; all lists `[row]`."""

    columns: tuple[str, ...]
    """Of a CSV file, in order; empty for JSON Lines."""
    rows: tuple[dict[str, Any], ...]
    completions: tuple[str, ...]
    prompts: tuple[str, ...] | None
    labels: tuple[str, ...] | None
    """What people said, where a column of theirs is named."""

    @property
    def n_empty(self) -> int:
        """Rows whose completion has no text."""
        return sum(not text.strip() for text in self.completions)

    def write(self, path: Path, verdicts: Sequence[RefusalVerdict]) -> None:
        """Write all rows with `label` and `score` (four decimals), as JSON Lines or CSV by the suffix of `path`."""
        judged = [
            {**row, "label": verdict.label, "score": round(verdict.score, 4)}
            for row, verdict in zip(self.rows, verdicts, strict=True)
        ]
        if path.suffix.lower() == ".csv":
            columns = self.columns or tuple(
                dict.fromkeys(name for row in self.rows for name in row)
            )
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, [*columns, *ADDED], lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: _cell(value) for name, value in row.items()} for row in judged)
            write_text(path, text.getvalue())
        else:
            write_rows(path, judged)


def read_completions(
    path: Path, text: str, prompt: str | None = None, label: str | None = None
) -> CompletionFile:
    """Read a CSV file with a header, or JSON Lines (any suffix but .csv).

    Args:
        path: of the file.
        text: the column of completions.
        prompt: the column of what was asked, if there is one.
        label: the column of people's labels, if there is one: ours or XSTest's spelling.

    Raises:
        ValueError: no file, no row, no such column (with those that there are), a cell that is no text, a label that is
            none of the three, or a column that would be overwritten.
    """
    if not path.is_file():
        raise ValueError(f"file: no file {path}; give a CSV or JSON Lines file of completions")
    is_csv = path.suffix.lower() == ".csv"
    columns = csv_header(path) if is_csv else ()
    numbered = list(csv_rows(path) if is_csv else numbered_rows(path))
    if not numbered:
        raise ValueError(f"{path} holds no row; give at least one completion")
    found = columns or tuple(dict.fromkeys(name for _, row in numbered for name in row))
    asked = [name for name in (text, prompt, label) if name is not None]
    for name in asked:
        if name not in found:
            raise ValueError(
                f"{path}: no column {name!r}; it has {', '.join(map(repr, found)):.300}; "
                "name them by --text-column, --prompt-column and --label-column"
            )
    for name in ADDED:
        if name in found:
            raise ValueError(
                f"{path}: has a column {name!r} already; rename it, since it would be added"
            )
    # Of a CSV file an empty cell is left out; of JSON Lines a field may be missing: both are no text.
    cells = {
        name: tuple(_text(row.get(name, ""), name, f"{path}, line {n}") for n, row in numbered)
        for name in asked
    }
    return CompletionFile(
        columns=columns,
        rows=tuple(row for _, row in numbered),
        completions=cells[text],
        prompts=None if prompt is None else cells[prompt],
        labels=None
        if label is None
        else tuple(
            _label(cell, label, f"{path}, line {n}")
            for cell, (n, _) in zip(cells[label], numbered, strict=True)
        ),
    )


def _text(value: Any, name: str, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{where}: field {name!r} is {value!r:.40}; it must be a string")
    return value


def _label(cell: str, name: str, where: str) -> str:
    label = plain_label(cell)
    if label is None:
        raise ValueError(
            f"{where}: {name!r} is {cell!r:.40}; a label is comply, partial or refuse, or spelled as in XSTest "
            "(1_full_compliance, 2_full_refusal, 3_partial_refusal)"
        )
    return label


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value

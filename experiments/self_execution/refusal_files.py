"""Refusal results of the Self-Execution Benchmark as released: a CSV file a model, several runs in it."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.self_execution.released import require_file
from experiments.self_execution.xstest import XSTest

_HEADER = ["0", "1", "2", "3"]
_ANSWERS = {"A": True, "B": False}
_PREFIX = "output_data_"

Row = tuple[str, bool | None, bool | None]
"""Id of the prompt, predicted, judged."""


@dataclass(frozen=True)
class RefusalRun:
    """What one model said it would do and did, by id of the prompt: True answers, False refuses, None unparsed."""

    model: str
    predicted: Mapping[str, bool | None]
    judged: Mapping[str, bool | None]
    texts: Mapping[str, str]
    """The prompts, as the file has them."""
    n_rows: int
    longest: RefusalRun | None = None
    """The longest of the file's runs by itself, where there are several."""


def read_refusal_run(path: Path, prompts: XSTest | None) -> RefusalRun:
    """Read one model's file: rows of id, prompt, predicted and judged A (answers) or B (refuses).

    The files were appended over several runs, each with a header of its own: the last row of an id counts. A letter
    other than A and B is unparsed; a prompt without a row is absent from the mappings.

    Raises:
        ValueError: no file, not four fields a row, an id of two prompts, or a prompt that is not the one of its id in
            `prompts`.
    """
    require_file(path)
    texts = {} if prompts is None else dict(zip(prompts.ids, prompts.texts, strict=True))
    runs: list[list[Row]] = [[]]
    for where, row in _rows(path):
        if row == _HEADER:
            runs.append([])
            continue
        id, text, *answers = row
        if prompts is None:
            texts.setdefault(id, text)
        if texts.get(id) != text:
            raise ValueError(
                f"{where}: prompt {text!r:.60} is not prompt {id!r:.20} of "
                f"{'the rows before' if prompts is None else 'XSTest'}; "
                "give the prompts that the results were made with"
            )
        predicted, judged = (_ANSWERS.get(one.strip()) for one in answers)
        runs[-1].append((id, predicted, judged))
    rows = [row for run in runs for row in run]
    if not rows:
        raise ValueError(f"{path}: holds no result; give the refusal results of a model")
    model = path.stem.removeprefix(_PREFIX)
    longest = max(runs, key=len)
    several = len(longest) < len(rows)
    alone = _run(model, longest, texts, None) if several else None
    return _run(model, rows, texts, alone)


def _run(
    model: str, rows: Sequence[Row], texts: Mapping[str, str], longest: RefusalRun | None
) -> RefusalRun:
    return RefusalRun(
        model,
        predicted={id: said for id, said, _ in rows},
        judged={id: did for id, _, did in rows},
        texts=texts,
        n_rows=len(rows),
        longest=longest,
    )


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (file and line, the four fields) of every row, headers among them, empty lines left out."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        try:
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                if row and len(row) != len(_HEADER):
                    raise ValueError(
                        f"{where}: {len(row)} fields; needed are id, prompt, predicted and judged"
                    )
                if row:
                    yield where, row
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text ({error.reason})") from None
        except csv.Error as error:
            raise ValueError(f"{path}: not CSV ({error})") from None

"""Refusal results of the Self-Execution Benchmark as released: a CSV file a model."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.self_execution.xstest import XSTest

_HEADER = ["0", "1", "2", "3"]
_ANSWERS = {"A": True, "B": False}
_PREFIX = "output_data_"


@dataclass(frozen=True)
class RefusalRun:
    """What one model said it would do and did, by id of the prompt: True answers, False refuses, None unparsed."""

    model: str
    predicted: Mapping[str, bool | None]
    judged: Mapping[str, bool | None]


def read_refusal_run(path: Path, prompts: XSTest) -> RefusalRun:
    """Read one model's file: rows of id, prompt, predicted and judged A (answers) or B (refuses).

    The files were appended over several runs: the last row of an id counts, and headers and empty lines stand between
    rows. A letter other than A and B is unparsed; a prompt without a row is absent from both mappings.

    Raises:
        ValueError: no file, not four fields a row, or a prompt that is not the one of its id in `prompts`.
    """
    if not path.is_file():
        raise ValueError(f"file: no file {path}; give the refusal results of a model")
    text_of = dict(zip(prompts.ids, prompts.texts, strict=True))
    predicted: dict[str, bool | None] = {}
    judged: dict[str, bool | None] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        try:
            for row in reader:
                if not row or row == _HEADER:
                    continue
                where = f"{path}, line {reader.line_num}"
                if len(row) != len(_HEADER):
                    raise ValueError(
                        f"{where}: {len(row)} fields; needed are id, prompt, predicted and judged"
                    )
                id, text, *answers = row
                if text_of.get(id) != text:
                    raise ValueError(
                        f"{where}: prompt {text!r:.60} is not prompt {id!r:.20} of XSTest; "
                        "give the prompts that the results were made with"
                    )
                predicted[id], judged[id] = (_ANSWERS.get(one.strip()) for one in answers)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text ({error.reason})") from None
        except csv.Error as error:
            raise ValueError(f"{path}: not CSV ({error})") from None
    if not judged:
        raise ValueError(f"{path}: holds no result; give the refusal results of a model")
    return RefusalRun(path.stem.removeprefix(_PREFIX), predicted, judged)

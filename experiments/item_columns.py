"""Rows of a user's items file, CSV or JSON Lines, with the user's columns under the names of an item's fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.contrast_pairs import XSTEST_COLUMNS, contrast_pairs
from experiments.csv_files import csv_header, csv_rows
from experiments.records import numbered_rows

FIELDS = ("id", "text", "messages", "group", "stratum", "answers", "choices", "type", "meta")
"""What a column may stand for."""

_CELLS = ("id", "text", "group", "stratum", "answers", "choices", "type")
_PROMPT_NAMES = ("prompt", "question", "instruction", "input", "goal", "query", "content")
_SEPARATOR = "|"


def parse_columns(text: str) -> dict[str, str]:
    """Read `text=prompt,group=pair`: field of an item -> column of the file.

    Raises:
        ValueError: no such field, a field given twice, or a part without an equals sign.
    """
    columns: dict[str, str] = {}
    for part in text.split(","):
        field, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column:
            raise ValueError(f"columns: {part!r} is not field=column, such as text=prompt")
        if field in columns:
            raise ValueError(f"columns: {field!r} stands there twice; give it one column")
        columns[field] = column
    check_columns(columns)
    return columns


def check_columns(columns: Mapping[str, str]) -> None:
    """Raise ValueError where `columns` names a field that no item has."""
    for field in columns:
        if field not in FIELDS:
            raise ValueError(f"columns: no field {field!r}; allowed are {', '.join(FIELDS)}")


def item_rows(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, row by an item's fields) of a file.

    Fields that are not mapped are read from the column of their own name. Of a CSV file, and of any file whose columns
    are mapped, the other columns are left alone; several answers or choices in a cell are separated by `|`. Rows of
    empty cells alone are passed over. In a file of XSTest's prompts the contrast pairs are the groups.

    Raises:
        ValueError: as `csv_rows` and `numbered_rows`; a column that the file lacks, no text.
    """
    check_columns(columns)
    if path.suffix.lower() == ".csv":
        yield from _from_csv(path, columns)
        return
    for number, row in numbered_rows(path):
        _check_found(columns, tuple(row), where=f"{path}, line {number}")
        source = {**{field: field for field in FIELDS if field not in columns}, **columns}
        yield number, _renamed(row, source) if columns else row


def _from_csv(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    header = csv_header(path)
    if not header:
        return
    _check_found(columns, header, where=str(path))
    own = (field for field in _CELLS if field not in columns and field in header)
    source = {**{field: field for field in own}, **columns}
    rows = [(number, row) for number, row in csv_rows(path) if any(map(str.strip, row.values()))]
    pairs: Sequence[str | None] = [None] * len(rows)
    if set(XSTEST_COLUMNS) <= set(header) and "group" not in source:
        pairs = contrast_pairs([row.get("type", "") for _, row in rows])
    for (number, row), pair in zip(rows, pairs, strict=True):
        found = _renamed(row, source)
        for field in ("answers", "choices"):
            if field in found:
                found[field] = [part.strip() for part in found[field].split(_SEPARATOR)]
        if pair is not None:
            found["group"] = pair
        if "text" in source:
            found.setdefault("text", "")  # so that an empty cell is called empty, and not missing
        yield number, found


def _renamed(row: Mapping[str, Any], source: Mapping[str, str]) -> dict[str, Any]:
    found = {field: row[column] for field, column in source.items() if column in row}
    for field in ("id", "group", "stratum", "type"):
        if isinstance(found.get(field), int):
            found[field] = str(found[field])
    return found


def _check_found(columns: Mapping[str, str], found: Sequence[str], *, where: str) -> None:
    """Raise ValueError, with what was found and how to map it, unless every mapped column and a text are there."""
    missing = [(field, column) for field, column in columns.items() if column not in found]
    if not missing and ({"text", "messages"} & {*columns, *found}):
        return
    likely = next((name for name in _PROMPT_NAMES if name in found), None)
    example = f"text={likely or 'COLUMN'}"
    if missing:
        field, column = missing[0]
        fault = f"no {column!r} for {field!r}"
        example = example if field == "text" else f"{field}=COLUMN"
    else:
        fault = "no 'text' (and no 'messages')"
    names = ", ".join(map(repr, found))
    hint = (
        "; separate the columns by commas" if len(found) == 1 and re.search(r"[;\t]", names) else ""
    )
    raise ValueError(f"{where}: {fault}; found {names:.300}; map with --columns {example}{hint}")

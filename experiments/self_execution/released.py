"""Result files as the benchmark's authors released them: a CSV file with a header, a file a model."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.csv_files import csv_header, csv_rows


def released_rows(
    path: Path, columns: Sequence[str], option: str = "file"
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (file and line, the cells of `columns`) of every row; other columns are left alone.

    Raises:
        ValueError: no file, columns that it lacks, no row, or no CSV in UTF-8.
    """
    require_file(path, option)
    found = csv_header(path)
    if missing := [name for name in columns if name not in found]:
        bare = "begins with an empty line" if path.stat().st_size else "is empty"
        has = f"has {', '.join(map(repr, found)):.200}" if found else bare
        raise ValueError(
            f"{option}: {path} {has}; needed are the columns {', '.join(map(repr, columns))}, "
            f"and {', '.join(map(repr, missing))} is missing"
        )
    row = None
    for line, row in csv_rows(path):
        yield f"{path}, line {line}", {name: row.get(name, "") for name in columns}
    if row is None:
        raise ValueError(f"{option}: {path} holds no result; give a file with rows")


def require_file(path: Path, option: str = "file") -> None:
    """Raise ValueError unless `path` is a file."""
    if not path.is_file():
        raise ValueError(f"{option}: no file {path}; give the results of a model, as released")


def require_distinct(models: Sequence[str]) -> None:
    """Raise ValueError where two files are of one model."""
    for model in models:
        if models.count(model) > 1:
            raise ValueError(f"files: model {model!r} is given twice; give a file a model")


def literal(cell: str) -> Any:
    """The Python literal that a cell holds, never evaluated as code; None where it holds none."""
    try:
        return ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def finite(cell: str) -> float | None:
    """The number that a cell holds; None where it holds none."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None

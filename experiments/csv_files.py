"""CSV files with a header, read with the line named on a fault."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NEEDED = ("id", "prompt", "text")
_LONGEST_CELL = 2**27


def csv_rows(path: Path, columns: Sequence[str] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, row) of a CSV file with a header; empty cells of optional columns are left out.

    Raises:
        ValueError: one of `columns` that the header lacks, a name that it has twice, a row of another length, no UTF-8,
            no CSV.
    """
    with _reader(path) as reader:
        names = reader.fieldnames or ()
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{path}: the header names {name!r} twice; name it once")
        for name in columns:
            if names and name not in names:
                raise ValueError(
                    f"{path}: no column {name!r}; the header, separated by commas, has "
                    f"{', '.join(map(repr, names)):.200}"
                )
        for row in reader:
            if None in row or None in row.values():
                raise ValueError(
                    f"{path}, line {reader.line_num}: has not as many fields as the header"
                )
            # A cell left empty says nothing: `group` and `quote` are optional.
            yield reader.line_num, {k: v for k, v in row.items() if v or k in _NEEDED}


def csv_header(path: Path) -> tuple[str, ...]:
    """The names of the columns, in order; none for an empty file.

    Raises:
        ValueError: as `csv_rows`.
    """
    with _reader(path) as reader:
        return tuple(reader.fieldnames or ())


@contextmanager
def _reader(path: Path) -> Iterator[csv.DictReader[str]]:
    csv.field_size_limit(_LONGEST_CELL)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield csv.DictReader(file, strict=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except csv.Error as error:
        raise ValueError(f"{path}: not CSV ({error}); quote fields that hold commas") from None

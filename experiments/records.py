"""The JSON Lines and JSON files of a run: written whole or not at all, read with the line named on a fault."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, SupportsFloat

from activations_cache import replace_file


def make_folder(setting: str, path: Path) -> None:
    """Make a folder to write into, unless it is there, before any work is done for it.

    Raises:
        ValueError: there is a file in its place or on the way to it, or nothing may be written there.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        writable = os.access(path, os.W_OK | os.X_OK)
    except OSError as error:
        raise ValueError(
            f"{setting}: cannot make the folder {path} ({error.strerror}); give another folder"
        ) from None
    if not writable:
        raise ValueError(f"{setting}: cannot write to the folder {path}; give another folder")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    replace_file(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON; not-a-number has no place in JSON and raises ValueError."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def read_json(path: Path, mend: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ValueError: the file is damaged; the message ends with `mend`.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); {mend}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} is damaged (it holds no object); {mend}")
    return value


def json_number(value: SupportsFloat) -> float | None:
    """A number of six decimals as JSON can hold it: None for not-a-number and infinity, and no negative zero."""
    number = float(value)
    return round(number, 6) + 0.0 if math.isfinite(number) else None


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON Lines, whole or not at all."""
    write_text(path, "".join(_line(row) for row in rows))


def append_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append JSON Lines and flush them to the disk: what was appended survives a kill."""
    with path.open("a", encoding="utf-8", newline="\n") as file:
        file.write("".join(_line(row) for row in rows))
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read JSON Lines.

    Raises:
        ValueError: a line is not a JSON object; the message names file and line.
    """
    return [row for _, row in numbered_rows(path)]


def numbered_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, row) of a JSON Lines file, blank lines left out.

    Raises:
        ValueError: as `read_rows`.
    """
    try:
        # Not splitlines(): a line separator such as U+2028 may stand inside a JSON string.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            _line(row).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(
                f"{path}, line {number}: holds half a character (a lone surrogate); remove it"
            ) from None
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", str(error))
            raise ValueError(
                f"{path}, line {number}: not JSON ({reason}); each line must hold one JSON object"
            ) from None
        if not isinstance(row, dict):
            raise ValueError(
                f"{path}, line {number}: holds {row!r:.40}; each line must hold one JSON object"
            )
        yield number, row


def read_whole_rows(path: Path) -> list[dict[str, Any]]:
    """Read what a killed writer left of a file made by `append_rows`: a torn last line is dropped.

    The torn line is cut from the file as well, so that the next append starts on a line of its own.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    return [json.loads(line) for line in whole.splitlines()]


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"

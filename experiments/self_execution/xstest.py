"""The prompts of XSTest: their label, their type, and which of them are a contrast pair."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.contrast_pairs import contrast_pairs
from experiments.csv_files import csv_rows
from experiments.items import text_field


@dataclass(frozen=True)
class XSTest:
    """Prompts in the order of the file, all tuples `[prompt]`."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    safe: tuple[bool, ...]
    types: tuple[str, ...]
    pairs: tuple[str, ...]
    """The contrast pair; a prompt that is in none is a group of its own."""


def read_xstest(path: Path) -> XSTest:
    """Read `prompts.csv` of XSTest: columns `id`, `prompt`, `type` and `label` (safe or unsafe).

    Raises:
        ValueError: no file, a row without one of the fields, an id that occurs twice, another label, no prompt.
    """
    if not path.is_file():
        raise ValueError(f"prompts: no file {path}; give XSTest's prompts.csv")
    rows: list[tuple[str, str, str, str]] = []
    seen: set[str] = set()
    for number, row in csv_rows(path):
        where = f"{path}, line {number}"
        id, text, kind, label = (
            text_field(row, name, where) for name in ("id", "prompt", "type", "label")
        )
        if label not in ("safe", "unsafe"):
            raise ValueError(f"{where}: label {label!r}; it must be safe or unsafe")
        if id in seen:
            raise ValueError(f"{where}: id {id!r} occurs twice; make ids unique")
        seen.add(id)
        rows.append((id, text, kind, label))
    if not rows:
        raise ValueError(f"prompts: {path} holds no prompt; give XSTest's prompts.csv")
    ids, texts, types, labels = zip(*rows, strict=True)
    safe = tuple(label == "safe" for label in labels)
    return XSTest(ids, texts, safe, types, tuple(contrast_pairs(types)))

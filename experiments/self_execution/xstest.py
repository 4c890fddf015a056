"""The prompts of XSTest: their label, their type, and which of them are a contrast pair."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.contrast_pairs import contrast_pairs
from experiments.self_execution.released import released_rows

COLUMNS = ("id", "prompt", "type", "label")


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
        ValueError: no file, other columns, an empty cell, an id that occurs twice, another label, no prompt.
    """
    rows: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for where, cells in released_rows(path, COLUMNS, "prompts"):
        for name, cell in cells.items():
            if not cell:
                raise ValueError(f"{where}: field {name!r} is empty; fill it")
        if cells["label"] not in ("safe", "unsafe"):
            raise ValueError(f"{where}: label {cells['label']!r}; it must be safe or unsafe")
        if cells["id"] in seen:
            raise ValueError(f"{where}: id {cells['id']!r} occurs twice; make ids unique")
        seen.add(cells["id"])
        rows.append(tuple(cells.values()))
    ids, texts, types, labels = zip(*rows, strict=True)
    safe = tuple(label == "safe" for label in labels)
    return XSTest(ids, texts, safe, types, tuple(contrast_pairs(types)))

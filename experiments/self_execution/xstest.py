"""The prompts of XSTest: their label, their type, and which of them are a contrast pair."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from experiments.items import text_field
from experiments.prompt_files import csv_rows

CONTRASTED = {
    "contrast_discr": "real_group_nons_discr",
    "contrast_privacy": "privacy_fictional",
}
"""Contrast types that are not named after the type whose prompts they turn unsafe, one by one."""

_CONTRAST = "contrast_"


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

    The k-th prompt of a type and the k-th of its contrast type are a pair: they share their template or topic
    ("How do I kill a mosquito ...", "How do I kill a person ..."). Two safe types have no contrast.

    Raises:
        ValueError: no file, a row without one of the fields, an id that occurs twice, another label, no prompt.
    """
    if not path.is_file():
        raise ValueError(f"prompts: no file {path}; give XSTest's prompts.csv")
    rows: list[tuple[str, str, str, str]] = []
    pairs: list[str] = []
    count: Counter[str] = Counter()
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
        pairs.append(f"{_contrasted(kind)}-{count[kind]}")
        count[kind] += 1
    if not rows:
        raise ValueError(f"prompts: {path} holds no prompt; give XSTest's prompts.csv")
    ids, texts, types, labels = zip(*rows, strict=True)
    return XSTest(ids, texts, tuple(label == "safe" for label in labels), types, tuple(pairs))


def _contrasted(kind: str) -> str:
    return CONTRASTED.get(kind, kind.removeprefix(_CONTRAST))

"""Association results of the Self-Execution Benchmark as released: a CSV file a model, a row a target word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.self_execution.released import literal, released_rows

COLUMNS = ("Word", "Predictions", "Generated Words")
Pair = tuple[str, str]
"""A target word, as the files write it, and an option word in lower case."""


@dataclass(frozen=True)
class AssociationRun:
    """What one model said and did about every option word of every target."""

    model: str
    predicted: Mapping[Pair, bool | None]
    """Whether it said that the option would be among its words; None where the file says neither."""
    listed: Mapping[Pair, bool]
    """Whether the option was."""
    n_targets: int
    n_unparsed_rows: int
    """Targets of which predictions or words cannot be read; not among the pairs."""
    n_repeated: int
    """Rows of a target that a later row replaces."""


def read_association_run(path: Path) -> AssociationRun:
    """Read one model's file: `Predictions` holds {option: True or False}, `Generated Words` the model's list.

    An option is listed where it equals one of the words, both in lower case. The last row of a target counts.

    Raises:
        ValueError: no file, other columns, no row, or no target that can be read.
    """
    rows: dict[str, tuple[Any, Any]] = {}
    n_rows = 0
    for _, cells in released_rows(path, COLUMNS):
        word, predictions, words = (cells[name] for name in COLUMNS)
        rows[word] = (_predictions(literal(predictions)), _words(literal(words)))
        n_rows += 1
    predicted: dict[Pair, bool | None] = {}
    listed: dict[Pair, bool] = {}
    n_unparsed = 0
    for target, (said, words) in rows.items():
        if said is None or words is None:
            n_unparsed += 1
            continue
        for option, answer in said.items():
            predicted[target, option] = answer
            listed[target, option] = option in words
    if not listed:
        raise ValueError(f"file: {path} holds no target with predictions and words to read")
    return AssociationRun(
        path.stem, predicted, listed, len(rows) - n_unparsed, n_unparsed, n_rows - len(rows)
    )


def _predictions(value: Any) -> dict[str, bool | None] | None:
    if not isinstance(value, dict) or not value or not all(isinstance(k, str) for k in value):
        return None
    return {option.lower(): _answer(said) for option, said in value.items()}


def _answer(said: Any) -> bool | None:
    if isinstance(said, str):  # of one target in the released files
        return {"true": True, "false": False}.get(said.lower())
    return said if isinstance(said, bool) else None


def _words(value: Any) -> set[str] | None:
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        return None
    return {word.lower() for word in value}

"""A user's own labels of the items of a cache, read from CSV and matched with the cache by id.

Labels are 0 or 1 (`binary`), numbers (`rate`) or names (`classes`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from experiments.csv_files import csv_rows
from experiments.items import text_field
from experiments.prompt_files import PromptRow
from probes import skip_reason
from probes.splits import MIN_ITEMS_PER_CLASS

Kind = Literal["binary", "rate", "classes"]
_BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
_LISTED = 5
_SMALLEST, _LARGEST = 1e-100, 1e100
"""Between which a rate's largest number must lie, so that sums of squares are numbers."""


@dataclass(frozen=True)
class Labels:
    """Labeled items in the order of the file."""

    kind: Kind
    ids: tuple[str, ...]
    y: NDArray[Any]
    """`[item]`: 0 or 1, numbers, or names."""
    groups: np.ndarray
    """The name of every item's group `[item]`."""
    unlabeled: tuple[str, ...]
    """Items of the cache that have no label, and were left out."""


def read_labels(
    path: Path,
    cache_ids: Sequence[str],
    *,
    kind: Kind = "binary",
    label_column: str = "label",
    group_column: str | None = None,
    groups_file: Path | None = None,
    prompt_groups: Mapping[str, str] | None = None,
    allow_unlabeled: bool = False,
    n_folds: int = 5,
) -> Labels:
    """Read labels from a CSV file with the columns `id`, the label's and optionally the group's.

    Args:
        path: of the file.
        cache_ids: the items that the cache holds.
        kind: "binary" for 0 or 1 (false and true are taken too), "rate" for numbers, "classes" for names.
        label_column: of the labels.
        group_column: what an item must never be parted from by a split; default `group` where the file has it, and
            else the groups of `groups_file`.
        groups_file: the `prompts.csv` of the cache, with `id` and `group`.
        prompt_groups: id -> group by the prompts themselves, where that file is gone.
        allow_unlabeled: leave items of the cache without a label out, instead of refusing them.
        n_folds: folds that the groups must be enough for.

    Raises:
        ValueError: no file, a column that is missing, a label that is not of the kind, an id twice; labels for items
            that the cache lacks, items without a label, items without a group; or labels that cannot be scored (one
            class, a class under 10 items, the same rate everywhere, fewer groups than folds). Nothing has been
            computed by then.
    """
    rows = _rows(path, label_column, group_column)
    known = set(cache_ids)
    unknown = [id for id in rows if id not in known]
    if unknown:
        raise ValueError(
            f"labels: {_listed(unknown)} of {path} not in the cache; remove these rows, or give the cache of "
            "these items"
        )
    unlabeled = tuple(id for id in cache_ids if id not in rows)
    if unlabeled and not allow_unlabeled:
        raise ValueError(
            f"labels: {_listed(unlabeled)} of the cache without a label in {path}; label them, or leave them out "
            "with --allow-unlabeled"
        )
    y = _values(kind, [(label, where) for label, _, where in rows.values()])
    own = {id: group for id, (_, group, _) in rows.items() if group is not None}
    held = own or _held_groups(groups_file, prompt_groups)
    ungrouped = [id for id in rows if id not in held]
    if ungrouped:
        source = path if own else "the cache's prompts"
        raise ValueError(
            f"groups: {_listed(ungrouped)} without a group in {source}; give every item one"
        )
    groups = np.array([held[id] for id in rows])
    reason = _unscorable(kind, y, groups, n_folds)
    if reason is not None:
        raise ValueError(f"labels: {path} cannot be scored: {reason}")
    return Labels(kind, tuple(rows), y, groups, unlabeled)


def _rows(
    path: Path, label_column: str, group_column: str | None
) -> dict[str, tuple[str, str | None, str]]:
    """Id -> label, group (None where the file gives no groups), and where it stands."""
    if not path.is_file():
        raise ValueError(f"labels: no file {path}; give a CSV file with the columns id and label")
    rows: dict[str, tuple[str, str | None, str]] = {}
    columns = ("id", label_column, *(() if group_column is None else (group_column,)))
    for number, row in csv_rows(path, columns):
        where = f"{path}, line {number}"
        id = text_field(row, "id", where)
        if id in rows:
            raise ValueError(f"{where}: id {id!r} occurs twice; give one label an item")
        label = text_field(row, label_column, where)
        needs_group = group_column is not None or "group" in row
        group = text_field(row, group_column or "group", where) if needs_group else None
        rows[id] = (label, group, where)
    if not rows:
        raise ValueError(f"labels: {path} holds no label; give one row an item")
    return rows


def _values(kind: Kind, labels: Sequence[tuple[str, str]]) -> NDArray[Any]:
    """Labels `[item]` of a kind, from what the cells say and where they stand."""
    if kind == "classes":
        return np.array([label.strip() for label, _ in labels])
    if kind == "rate":
        for label, where in labels:
            if _number(label) is None:
                raise ValueError(
                    f"{where}: label {label!r:.40} is not a finite number, which --kind rate wants; mend it, or "
                    "give --kind classes if labels are names"
                )
        return np.array([_number(label) for label, _ in labels], dtype=np.float64)
    other = "rate" if all(_number(label) is not None for label, _ in labels) else "classes"
    for label, where in labels:
        if label.strip().lower() not in _BINARY:
            meant = "numbers" if other == "rate" else "names"
            raise ValueError(
                f"{where}: label {label!r:.40} is neither 0 nor 1; mend it, or give --kind {other} if labels are "
                f"{meant}"
            )
    return np.array([_BINARY[label.strip().lower()] for label, _ in labels])


def _number(label: str) -> float | None:
    """The finite number that a cell holds; None for anything else (an underscore is no digit here)."""
    try:
        value = float(label)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in label else None


def _unscorable(kind: Kind, y: NDArray[Any], groups: np.ndarray, n_folds: int) -> str | None:
    if kind == "binary":
        return skip_reason(y, groups, n_folds)
    n_groups = len(set(groups))
    counts = Counter(y.tolist())
    if len(counts) < 2:
        return f"every label is {next(iter(counts))!r}; there is nothing to predict"
    if kind == "rate" and not _SMALLEST < np.abs(y).max() < _LARGEST:
        return f"the largest of its numbers is {np.abs(y).max():g}; give them in another unit"
    if kind == "classes":
        name, count = min(counts.items(), key=lambda pair: pair[1])
        if count < MIN_ITEMS_PER_CLASS:
            return (
                f"class {name!r:.40} has only {count} items; at least {MIN_ITEMS_PER_CLASS} are needed (merge "
                "it with another, or leave its rows out)"
            )
    return f"only {n_groups} groups for {n_folds} folds" if n_groups < n_folds else None


def _held_groups(path: Path | None, of_prompts: Mapping[str, str] | None) -> Mapping[str, str]:
    if path is None or not path.is_file():
        if of_prompts is not None:
            return of_prompts
        raise ValueError(
            "groups: neither the labels nor the cache (prompts.csv) say which items belong together; add a column "
            "`group`, or give --group-column id if no two items share anything"
        )
    return {
        text_field(row, "id", f"{path}, line {number}"): text_field(
            row, "group", f"{path}, line {number}"
        )
        for number, row in csv_rows(path)
    }


def texts_of(path: Path, prompts: Mapping[str, PromptRow], ids: Sequence[str]) -> list[str]:
    """The texts `[item]` of labeled items, for text baselines.

    Args:
        path: of the prompts, for the message.
        prompts: by id.
        ids: the labeled items.

    Raises:
        ValueError: a labeled item that has no prompt there.
    """
    missing = [id for id in ids if id not in prompts]
    if missing:
        raise ValueError(
            f"prompts: {_listed(missing)} not in {path}; give the file that the cache was captured from"
        )
    return [prompts[id].text for id in ids]


def _listed(ids: Iterable[str]) -> str:
    """`2 items (a, b)` for a message: how many, and the first few."""
    ids = list(ids)
    names = ", ".join(map(repr, ids[:_LISTED])) + (", ..." if len(ids) > _LISTED else "")
    return f"{len(ids)} item{'s' if len(ids) > 1 else ''} ({names})"

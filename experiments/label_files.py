"""A user's own labels of the items of a cache, read from CSV and matched with the cache by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from experiments.items import text_field
from experiments.prompt_files import csv_rows
from probes import skip_reason

_BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
_LISTED = 5


@dataclass(frozen=True)
class Labels:
    """Labeled items in the order of the file."""

    ids: tuple[str, ...]
    y: Int[np.ndarray, " item"]
    groups: np.ndarray
    """The name of every item's group `[item]`."""
    unlabeled: tuple[str, ...]
    """Items of the cache that have no label, and were left out."""


def read_labels(
    path: Path,
    cache_ids: Sequence[str],
    *,
    label_column: str = "label",
    group_column: str | None = None,
    groups_file: Path | None = None,
    allow_unlabeled: bool = False,
    n_folds: int = 5,
) -> Labels:
    """Read labels from a CSV file with the columns `id`, the label's and optionally the group's.

    Args:
        path: of the file.
        cache_ids: the items that the cache holds.
        label_column: holds 0 or 1 (false and true are taken too).
        group_column: what an item must never be parted from by a split; default `group` where the file has it, and
            else the groups of `groups_file`.
        groups_file: the `prompts.csv` of the cache, with `id` and `group`.
        allow_unlabeled: leave items of the cache without a label out, instead of refusing them.
        n_folds: folds that the groups must be enough for.

    Raises:
        ValueError: no file, a column that is missing, a label that is not binary, an id twice; labels for items that
            the cache lacks, items without a label, items without a group; or labels that cannot be scored (one class
            empty or under 10 items, fewer groups than folds). Nothing has been computed by then.
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
    y = np.array([_binary(label, where) for label, _, where in rows.values()])
    own = {id: group for id, (_, group, _) in rows.items() if group is not None}
    held, source = (own, path) if own else (_held_groups(groups_file), groups_file)
    ungrouped = [id for id in rows if id not in held]
    if ungrouped:
        raise ValueError(
            f"groups: {_listed(ungrouped)} without a group in {source}; give every item one"
        )
    groups = np.array([held[id] for id in rows])
    reason = skip_reason(y, groups, n_folds)
    if reason is not None:
        raise ValueError(f"labels: {path} cannot be scored: {reason}")
    return Labels(tuple(rows), y, groups, unlabeled)


def _rows(
    path: Path, label_column: str, group_column: str | None
) -> dict[str, tuple[str, str | None, str]]:
    """Id -> label, group (None where the file gives no groups), and where it stands."""
    if not path.is_file():
        raise ValueError(f"labels: no file {path}; give a CSV file with the columns id and label")
    rows: dict[str, tuple[str, str | None, str]] = {}
    for number, row in csv_rows(path):
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


def _binary(label: str, where: str) -> int:
    value = _BINARY.get(label.strip().lower())
    if value is None:
        raise ValueError(f"{where}: label {label!r:.40} is neither 0 nor 1; make labels binary")
    return value


def _held_groups(path: Path | None) -> Mapping[str, str]:
    if path is None or not path.is_file():
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


def _listed(ids: Iterable[str]) -> str:
    """`2 items (a, b)` for a message: how many, and the first few."""
    ids = list(ids)
    names = ", ".join(map(repr, ids[:_LISTED])) + (", ..." if len(ids) > _LISTED else "")
    return f"{len(ids)} item{'s' if len(ids) > 1 else ''} ({names})"

"""A table of printed cells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """A table: its heading, the names of its columns, and its cells; the first of a row is the row's name."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

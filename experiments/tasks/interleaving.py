"""The order of a task's items: any prefix holds each stratum in about its overall share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def interleaved(by_stratum: Mapping[str, Sequence[T]]) -> list[tuple[str, T]]:
    """All members with their stratum, the i-th of m of a stratum at (i + 1/2) / m of the whole; ties by its name."""
    placed = [
        ((i + 0.5) / len(members), stratum, i)
        for stratum, members in by_stratum.items()
        for i in range(len(members))
    ]
    return [(stratum, by_stratum[stratum][i]) for _, stratum, i in sorted(placed)]

"""The words that a report must earn, each with what it stands on or why it is withheld."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from experiments.claims import Claim

_MARKS = {"earned": "✓", "withheld": "✗", "not tested": "?"}


@dataclass(frozen=True)
class ClaimRow:
    """A claim as the page shows it: a mark and a state that say the same; no place where nothing was tested."""

    word: str
    mark: str
    state: str
    reason: str
    place: str


def claim_rows(claims: Iterable[Claim]) -> list[ClaimRow]:
    """The claims in their order."""
    return [
        ClaimRow(one.word, _MARKS[one.state], one.state, one.reason, one.place or "")
        for one in claims
    ]

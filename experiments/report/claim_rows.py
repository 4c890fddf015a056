"""The words that a report must earn, each with what it stands on or why it is withheld."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class Claim(Protocol):
    """A word, whether it was earned (None: not tested), and the reason."""

    @property
    def word(self) -> str:
        """The word."""

    @property
    def earned(self) -> bool | None:
        """Whether the run has earned it; None where nothing tested it."""

    @property
    def reason(self) -> str:
        """The figures it stands on, why it is withheld, or which command tests it."""


@dataclass(frozen=True)
class ClaimRow:
    """A claim as the page shows it: a mark and a state that say the same."""

    word: str
    mark: str
    state: str
    reason: str


def claim_rows(claims: Iterable[Claim]) -> list[ClaimRow]:
    """The claims in their order."""
    states = {True: ("✓", "earned"), False: ("✗", "withheld"), None: ("?", "not tested")}
    return [ClaimRow(one.word, *states[one.earned], one.reason) for one in claims]

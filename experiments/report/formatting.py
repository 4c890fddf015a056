"""Numbers as a reader meets them: two decimals, intervals in brackets, groups beside every n."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from markupsafe import Markup, escape

MISSING = "\N{EN DASH}"

_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def number(value: float | None, *, signed: bool = False, decimals: int = 2) -> str:
    """`0.86`, `+0.10` when signed, a dash where there is no finite value."""
    if value is None or not isfinite(value):
        return MISSING
    rounded = round(value, decimals) + 0.0  # + 0.0 turns a negative zero into zero
    return f"{rounded:+.{decimals}f}" if signed else f"{rounded:.{decimals}f}"


def bracket(ci: Sequence[float | None] | None, *, signed: bool = False) -> str:
    """`[0.82, 0.90]`, or nothing where there is no interval."""
    if ci is None or any(bound is None or not isfinite(bound) for bound in ci):
        return ""
    low, high = ci
    return f"[{number(low, signed=signed)}, {number(high, signed=signed)}]"


def estimate(
    value: float | None, ci: Sequence[float | None] | None = None, *, signed: bool = False
) -> str:
    """`0.86 [0.82, 0.90]`."""
    return f"{number(value, signed=signed)} {bracket(ci)}".strip()


def auroc(row: Mapping[str, Any] | None) -> str:
    """The AUROC of a predictor's row with its interval."""
    return estimate(row.get("auroc"), row.get("ci")) if row else MISSING


def gain(row: Mapping[str, Any] | None) -> str:
    """A difference, `estimate` and `ci`, with its sign."""
    return estimate(row.get("estimate"), row.get("ci"), signed=True) if row else MISSING


def p_value(value: float | None, n_permutations: int | None = None) -> str:
    """`p = 0.31`; `p ≤ 0.005` where that is the least that so many permutations can give."""
    if value is None or not isfinite(value):
        return MISSING
    if n_permutations and value <= 1 / (n_permutations + 1):
        return f"p ≤ {number(1 / (n_permutations + 1), decimals=3)}"
    return f"p = {number(value, decimals=2 if value >= 0.1 else 3)}"


def counted(n: int, n_groups: int | None, noun: str = "items") -> str:
    """`320 items in 130 groups`."""
    return f"{n} {noun}" if n_groups is None else f"{n} {noun} in {n_groups} groups"


def coded(text: object) -> Markup:
    """`text` escaped, what stands between backticks as code."""
    parts = readable(text).split("`")
    if len(parts) % 2 == 0:
        return escape("`".join(parts))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


def readable(text: object) -> str:
    """`text` as a page can show it.

    Control characters, lone surrogates and the overrides of the writing direction, which would let
    a text reorder the words around it, become U+FFFD.
    """
    return "".join("\ufffd" if _is_unprintable(character) else character for character in str(text))


def _is_unprintable(character: str) -> bool:
    if character in "\n\t":
        return False
    return (
        unicodedata.category(character) in {"Cc", "Cs"}
        or unicodedata.bidirectional(character) in _DIRECTIONS
    )

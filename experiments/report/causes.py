"""What interventions did, from `causal.json`: every effect as a row, whatever part it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.report.formatting import MISSING, gain, number, p_value

MEASURES = {
    "behavior": "behavior",
    "self_report": "report about itself",
    "other_report": "report about another",
    "input_question": "question about the input",
}
"""Row of the dissociation table -> its name."""

PATTERNS = {
    "tracks": "the report tracks the behavior",
    "input moved": "a property of the input moved",
    "report only": "only the report moved: bias",
    "behavior only": "only the behavior moved: the report is blind",
    "undecided": "undecided",
    "none": "nothing moved",
}
"""`dissociation.pattern` -> its name."""

PARTS = {
    "ablation": "Ablation",
    "patching": "Patching",
    "shift": "Shift test",
}
"""Part of `causal.json` that is shown as a list of effects -> its heading."""


@dataclass(frozen=True)
class Effect:
    """One effect, printed: what was measured, the estimate with its interval, its p-value and what that stands on."""

    name: str
    estimate: str
    p: str
    n: str


@dataclass(frozen=True)
class Dose:
    """The change of a measure over the doses of one direction, and how seldom null directions do as much."""

    name: str
    values: tuple[str, ...]
    p_random: str
    p_shuffled: str


@dataclass(frozen=True)
class Causes:
    """What the page shows of the interventions on one task."""

    pattern: str
    sentence: str
    dissociation: tuple[Effect, ...]
    doses: tuple[str, ...]
    steering: tuple[Dose, ...]
    parts: tuple[tuple[str, tuple[Effect, ...]], ...]
    guards: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def causes(found: Mapping[str, Any]) -> Causes:
    """The interventions of one task, from its entry in `causal.json`."""
    table = found.get("dissociation") or {}
    steering = found.get("steering") or {}
    dosed = {k: row for k, row in steering.items() if isinstance(row, Mapping) and row.get("doses")}
    doses = next(
        (tuple(number(d, signed=True) for d in row["doses"]) for row in dosed.values()), ()
    )
    return Causes(
        pattern=PATTERNS.get(table.get("pattern", ""), str(table.get("pattern") or "")),
        sentence=str(table.get("sentence") or ""),
        dissociation=tuple(effects(table.get("rows") or {})),
        doses=doses,
        steering=tuple(
            Dose(
                _named(name),
                tuple(number(value, signed=True) for value in row.get("direction") or ()),
                p_value(row.get("p_random")),
                p_value(row.get("p_shuffled")),
            )
            for name, row in dosed.items()
        ),
        parts=tuple(
            (heading, rows)
            for part, heading in PARTS.items()
            if (rows := tuple(effects(found.get(part) or {})))
        ),
        guards=tuple(_leaves(found.get("guards") or {})),
        notes=tuple(str(note) for note in found.get("notes") or ()),
    )


def effects(part: Mapping[str, Any], prefix: str = "") -> Iterator[Effect]:
    """Every effect in a part, in the order of the file; its name is the way to it."""
    for key, row in part.items():
        name = f"{prefix}{_named(key)}"
        if not isinstance(row, Mapping):
            continue
        if "estimate" in row:
            yield Effect(name, gain(row), p_value(row.get("p"), row.get("n_null")), _based_on(row))
        else:
            yield from effects(row, f"{name}, ")


def _based_on(row: Mapping[str, Any]) -> str:
    parts = [] if row.get("n") is None else [f"{row['n']} items"]
    if row.get("n_null"):
        parts.append(f"{row['n_null']} null directions")
    return ", ".join(parts) or MISSING


def _named(key: str) -> str:
    return MEASURES.get(key, str(key).replace("_", " "))


def _leaves(part: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in part.items():
        name = f"{prefix}{_named(key)}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}, ")
        else:
            yield name, number(value, decimals=3) if isinstance(value, float) else str(value)

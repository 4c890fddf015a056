"""What interventions did, from `causal.json`: the dissociation table, the doses, and every other effect as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.causal_record import DIRECTIONS, LEAD, READOUTS
from experiments.report.formatting import MISSING, gain, number, p_value
from experiments.report.grid import Grid

PATTERNS = {
    "tracks": "The report tracks the behavior",
    "input moved": "A property of the input moved",
    "report only": "Only the report moved",
    "behavior only": "Only the behavior moved",
    "undecided": "",
    "none": "Nothing moved",
}
"""`dissociation.pattern` -> its name; the sentence of an undecided one begins with the word."""


@dataclass(frozen=True)
class Causes:
    """What the page shows of the interventions on one task: a verdict, the tables it rests on, and all others."""

    pattern: str
    sentence: str
    tables: tuple[Grid, ...]
    more: tuple[Grid, ...]
    notes: tuple[str, ...]


def causes(found: Mapping[str, Any]) -> Causes:
    """The interventions of one task, from its entry in `causal.json`; tables without rows are left out."""
    table = found.get("dissociation") or {}
    steering = {k: v for k, v in (found.get("steering") or {}).items() if k in READOUTS}
    main = (_dissociation(table), _doses(steering))
    more = (
        _guards(found.get("guards") or {}),
        _ablation(found.get("ablation") or {}),
        _patching(found.get("patching") or []),
        _shift(found.get("shift") or {}),
    )
    return Causes(
        pattern=PATTERNS.get(table.get("pattern", ""), str(table.get("pattern") or "")),
        sentence=str(table.get("sentence") or ""),
        tables=tuple(grid for grid in main if grid.rows),
        more=tuple(grid for grid in more if grid.rows),
        notes=tuple(str(note) for note in found.get("notes") or ()),
    )


def _dissociation(table: Mapping[str, Any]) -> Grid:
    rows = [
        (READOUTS.get(name, _spaced(name)), *_effect(row), row.get("moved") or MISSING)
        for name, row in (table.get("rows") or {}).items()
    ]
    together = table.get("item_by_item")
    if together:
        name = "behavior and report, item by item (correlation)"
        rows.append((name, *_effect(together), MISSING))
    for name, row in (table.get("self_report_more_than") or {}).items():
        rows.append((f"report about itself more than {READOUTS[name]}", *_effect(row), MISSING))
    heads = ("Measured", "Movement", "p", "On", "Does it move?")
    return Grid("the same direction, applied where each is measured", heads, tuple(rows))


def _doses(steering: Mapping[str, Any]) -> Grid:
    """The movement of every readout by dose; a dose beyond the guards is marked, and interpreted by nobody."""
    first: Mapping[str, Any] = next(iter(steering.values()), {})
    doses = first.get("doses") or []
    within = first.get("within") or [True] * len(doses)
    heads = [
        number(dose, signed=True) + ("" if inside else " (beyond the guards)")
        for dose, inside in zip(doses, within, strict=True)
    ]
    rows = [
        (
            READOUTS[name],
            *(number(value, signed=True) for value in row["direction"]),
            p_value(row.get("p_random")),
            p_value(row.get("p_shuffled")),
        )
        for name, row in steering.items()
    ]
    every = ("Movement at dose", *heads, "p, random directions", "p, shuffled labels")
    return Grid("steering along the probe's direction", every, tuple(rows))


def _guards(guards: Mapping[str, Any]) -> Grid:
    """What a dose costs elsewhere."""
    doses, within = guards.get("doses") or [], guards.get("within") or []
    named = [(name, guards[key]) for key, name in DIRECTIONS.items() if guards.get(key)]
    heads = [f"{what}, {name}" for name, _ in named for what in ("KL", "perplexity ratio")]
    rows = [
        (
            number(dose),
            *(number(row[key][i], decimals=3) for _, row in named for key in ("kl", "perplexity")),
            "yes" if inside else "no",
        )
        for i, (dose, inside) in enumerate(zip(doses, within, strict=True))
    ]
    every = ("Size of the dose", *heads, "Within the guards")
    return Grid("what steering does to neutral texts", every, tuple(rows))


def _ablation(ablation: Mapping[str, Any]) -> Grid:
    rows = [
        (name, *_effect(row))
        for readout, part in ablation.items()
        if readout in READOUTS
        for name, row in _effects(part, READOUTS[readout])
    ]
    return Grid("ablation", ("Measured", "Effect", "p", "On"), tuple(rows))


def _patching(patched: list[Mapping[str, Any]]) -> Grid:
    donors = ("opposite", "same", "random")
    rows = [
        (
            f"{_spaced(row['from'])} ({row['from_position']}) into {_spaced(row['into'])} ({row['into_position']})",
            gain(row.get("label_effect")),
            *(gain((row.get("recovery") or {}).get(donor)) for donor in donors),
        )
        for row in patched
    ]
    heads = ("Patched", "Effect of the donor's label", *(f"Recovery, {d} donor" for d in donors))
    return Grid("patching between contexts", heads, tuple(rows))


def _shift(shift: Mapping[str, Any]) -> Grid:
    fits = {name: f"Fit, {READOUTS[name]}" for name in ("self_report", "other_report")}
    fits[LEAD] = "The one over the other"
    rows = [
        (
            DIRECTIONS.get(change, str(change)),
            f"{row['to_one']} and {row['to_zero']} of {row['n']}",
            *(gain(row.get(fit)) for fit in fits),
            ": ".join(filter(None, (str(row["verdict"]), row.get("reason")))),
        )
        for change, row in shift.items()
        if isinstance(row, Mapping) and "verdict" in row
    ]
    heads = ("Changed by", "Flipped to outcome 1 and 0", *fits.values(), "Verdict")
    return Grid("shift test: does the report fit the changed behavior?", heads, tuple(rows))


def _effects(part: Mapping[str, Any], name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every effect in a part, named by the way to it."""
    for key, row in part.items():
        here = f"{name}, {DIRECTIONS.get(key, _spaced(key))}"
        if isinstance(row, Mapping):
            if "estimate" in row:
                yield here, row
            else:
                yield from _effects(row, here)


def _effect(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """The estimate with its interval, the p-value, and what both stand on."""
    counts = [("n", "items"), ("n_groups", "groups"), ("n_null", "null directions")]
    based_on = ", ".join(f"{row[key]} {what}" for key, what in counts if row.get(key))
    return gain(row), p_value(row.get("p"), row.get("n_null")), based_on or MISSING


def _spaced(name: str) -> str:
    return str(name).replace("_", " ")

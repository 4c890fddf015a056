"""The dissociation table: what moves with what, along one direction (METHODS section 8).

What it does not show: that the report is *made from* the behavior. A pattern says which readouts the direction moves,
in whichever prompt it is applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from experiments.causal.directions import FITTED
from experiments.causal.effects import Effect, Moved, correlation, effect_of
from experiments.causal.measured import Movements
from experiments.causal_record import READOUTS, UNREAD

Pattern = Literal["tracks", "input moved", "report only", "behavior only", "none", "undecided"]

SENTENCES: Mapping[Pattern, str] = {
    "tracks": "Behavior and self-report move together, item by item, and more than what is said of another assistant "
    "or of the input: the report tracks the behavior.",
    "input moved": "What is said of another assistant and of the input moves as well: a property of the input moved.",
    "report only": "The self-report moves and the behavior does not: the report is biased.",
    "behavior only": "The behavior moves and the self-report does not: the report is blind to it.",
    "none": "Neither the behavior nor the self-report moves along this direction.",
}


def dissociation(movements: Movements, passed: bool, seed: int) -> dict[str, Any]:
    """`dissociation` of `causal.json`: the probe's rows and pattern, and the same of the diff-of-means.

    `passed` says whether the dose is within the guards; beyond them nothing is interpreted.
    """
    tables = {name: _table(movements, row, passed, seed) for row, name in enumerate(FITTED)}
    return {**tables["probe"], "diff_means": tables["diff_means"]}


def _table(movements: Movements, direction: int, passed: bool, seed: int) -> dict[str, Any]:
    effects = {
        readout: movements.effect(readout, direction)
        for readout in READOUTS
        if readout in movements.readouts
    }
    answers = {readout: movements.moved(readout, effect) for readout, effect in effects.items()}
    values = {name: movements.at_test_dose(name, direction) for name in effects}
    groups = movements.groups
    together = (
        correlation(values["behavior"], values["self_report"], groups, movements.half, seed)
        if "behavior" in values
        else None
    )
    sign = -1.0 if effects["self_report"].estimate < 0 else 1.0
    more = {
        name: effect_of(sign * (values["self_report"] - values[name]), groups)
        for name in ("other_report", "input_question")
    }
    same_sign = (
        "behavior" in effects and effects["behavior"].estimate * effects["self_report"].estimate > 0
    )
    pattern, why = _pattern(answers, together, same_sign, more)
    if "behavior" in effects and not movements.reads_behavior:
        pattern, why = "undecided", UNREAD
    if not passed:
        pattern, why = "undecided", "every dose is beyond the guards, and none is interpreted"
    return {
        "rows": {
            name: effect.to_json() | {"moved": answers[name]} for name, effect in effects.items()
        },
        "item_by_item": None if together is None else together.to_json(),
        "self_report_more_than": {name: effect.to_json() for name, effect in more.items()},
        "pattern": pattern,
        "sentence": SENTENCES.get(pattern, f"Undecided: {why}."),
    }


def _pattern(
    answers: Mapping[str, Moved],
    together: Effect | None,
    same_sign: bool,
    more: Mapping[str, Effect],
) -> tuple[Pattern, str]:
    """The pattern, and why none could be told."""
    if "behavior" not in answers:
        return "undecided", "the behavior has no readout"
    behavior, report = answers["behavior"], answers["self_report"]
    for name, answer in (("behavior", behavior), ("self-report", report)):
        if answer == "undecided":
            return "undecided", f"the intervals and nulls cannot say whether the {name} moves"
    if behavior == "does not move":
        return ("report only" if report == "moves" else "none"), ""
    if report == "does not move":
        return "behavior only", ""
    as_much = [name for name, effect in more.items() if not effect.low > 0]
    item_by_item = together is not None and together.low > 0
    if not as_much and same_sign and item_by_item:
        return "tracks", ""
    if all(answers[name] == "moves" for name in more):
        return "input moved", ""
    if as_much:
        words = " and ".join(f"the {READOUTS[name]}" for name in as_much)
        return (
            "undecided",
            f"behavior and self-report move, the latter not decidedly more than {words}",
        )
    if not same_sign:
        return "undecided", "behavior and self-report move in opposite directions"
    return "undecided", "behavior and self-report move, but not item by item"

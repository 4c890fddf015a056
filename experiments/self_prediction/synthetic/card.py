"""The data card of made items: what was made, what was left out and why, what came of it, and what it does not show."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.behavior import Behavior
from experiments.records import json_number
from experiments.tasks import Item

LIMITS = (
    "Outcomes are those of one model in one state: another model, or this one trained on, may do otherwise.",
    "Half of each outcome is a design and not a finding; the base rates before balancing are in this card.",
    "Items whose judges disagree are left out, so that these are clearer cases than requests and questions at large.",
    "Near duplicates are looked for among templates, not within one: the fills of a template share its words.",
)


@dataclass
class Tally:
    """What became of the drafts."""

    drafted: Counter[str] = field(default_factory=Counter)
    """By source."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Before the model acted, by reason."""
    run: int = 0
    dismissed: Counter[str] = field(default_factory=Counter)
    """After the model acted, by reason."""
    verified: list[tuple[Item, int]] = field(default_factory=list)


def data_card(
    about: Mapping[str, Any],
    tally: Tally,
    kept: Sequence[tuple[Item, Behavior]],
    wanted: int,
    limits: Sequence[str],
) -> dict[str, Any]:
    """The card as JSON: no time and no path, so that the same items have the same card.

    Args:
        about: what the items were made from.
        tally: of all drafts.
        kept: the items with what the model did.
        wanted: how many items were asked for.
        limits: of this task's drafts.
    """
    items = [item for item, _ in kept]
    outcomes = [behavior.outcome for _, behavior in kept]
    return {
        **about,
        "wanted": wanted,
        "n_items": len(items),
        "n_groups": len({item.group for item in items}),
        "outcomes": _counted(str(outcome) for outcome in outcomes),
        "by_source": _counted(str(item.meta["source"]) for item in items),
        "by_stratum": _counted(item.stratum for item in items),
        "steps": {
            "drafted": _sorted(tally.drafted),
            "left_out_before_the_model_acted": _sorted(tally.left_out),
            "run": tally.run,
            "left_out_afterwards": _sorted(tally.dismissed),
            "verified": len(tally.verified),
            "without_counterpart": len(tally.verified) - len(items),
        },
        "base_rate_before_balancing": {
            "all": _rate(tally.verified),
            **_rates("stratum", [item.stratum for item, _ in tally.verified], tally.verified),
            **_rates("source", [item.meta["source"] for item, _ in tally.verified], tally.verified),
        },
        "items_sha256": digest([item.to_json() for item in items]),
        "limits": [*limits, *LIMITS],
    }


def in_markdown(card: Mapping[str, Any]) -> str:
    """The card for a reader."""
    steps = card["steps"]
    lines = [
        f"# {card['n_items']} made items of the {card['task']} task",
        "",
        f"{card['n_items']} of {card['wanted']} items asked for, in {card['n_groups']} groups; "
        f"outcomes {_listed(card['outcomes'])}; worded by {_listed(card['by_source'])}.",
        "",
        "| step | items |",
        "|---|---|",
        *_rows("drafted", steps["drafted"]),
        *_rows("left out before the model acted", steps["left_out_before_the_model_acted"]),
        f"| run | {steps['run']} |",
        *_rows("left out afterwards", steps["left_out_afterwards"]),
        f"| verified | {steps['verified']} |",
        f"| without a counterpart of the other outcome | {steps['without_counterpart']} |",
        f"| **kept** | **{card['n_items']}** |",
        "",
        "| base rate of the event before balancing | rate | items |",
        "|---|---|---|",
        *(
            f"| {name} | {rate['rate']:.3f} | {rate['n']} |"
            for name, rate in card["base_rate_before_balancing"].items()
        ),
        "",
        f"Kept by stratum: {_listed(card['by_stratum'])}.",
        "",
        f"Seed {card['seed']}; nearly the same from a Jaccard index of {card['near_duplicate']} on; "
        f"{card['excluded']['n']} test items excluded.",
        "",
        *(f"- {name}: `{value}`" for name, value in sorted(card["model"].items())),
        f"- templates: `{card['bank']}`",
        f"- items: `{card['items_sha256']}`",
        "",
        "What these items do not show:",
        "",
        *(f"- {limit}" for limit in card["limits"]),
    ]
    return "\n".join(lines) + "\n"


def digest(value: Any) -> str:
    """A sha256 of what JSON makes of a value."""
    return hashlib.sha256(
        json.dumps(value, sort_keys=True, ensure_ascii=False).encode()
    ).hexdigest()


def _rate(verified: Sequence[tuple[Item, int]]) -> dict[str, Any]:
    n = len(verified)
    events = sum(outcome for _, outcome in verified)
    return {"rate": json_number(events / n) if n else None, "n": n}


def _rates(
    what: str, names: Sequence[str], verified: Sequence[tuple[Item, int]]
) -> dict[str, dict[str, Any]]:
    """The rate of each name, of which there is one an item."""
    return {
        f"{what}: {name}": _rate(
            [one for one, own in zip(verified, names, strict=True) if own == name]
        )
        for name in sorted(set(names))
    }


def _counted(values: Iterable[str]) -> dict[str, int]:
    return _sorted(Counter(values))


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _rows(what: str, counts: Mapping[str, int]) -> list[str]:
    return [f"| {what}: {name} | {count} |" for name, count in counts.items()]

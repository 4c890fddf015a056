"""The controls of a task as lines of a table: a score, what the probe has over it, what it rules out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.report.formatting import auroc, counted, estimate, gain, number

FITTED = {
    "embedding_layer": "embedding layer, averaged over the instruction",
    "random_weights": "the same architecture with random weights",
    "projected_tfidf": "TF-IDF, randomly projected",
}
"""Controls that are fitted like the probe."""

OUTPUT = {
    "output_side": "output side, all numbers together",
    "max_probability": "output side: highest probability",
    "negative_entropy": "output side: entropy, low for outcome 1",
    "top2_margin": "output side: margin of the first over the second token",
    "opening_log_odds": "output side: log-odds of this task's openings",
    "sample_agreement": "output side: agreement of several samples",
}
"""Numbers of the model's distribution over its first answer token."""

_SURENESS = ("max_probability", "negative_entropy", "top2_margin")
_UNSIGNED = "read as: sure means outcome 1; under 0.50 it is the other way round"

WITHIN = {"probe": "probe", "verbal": "words", "text": "text alone"}

TYPES = {"entity": "kinds of entity", "opening_words": "opening words"}
"""Surface type of the control labels -> its name."""

READERS = {
    "probe": "probe of the model itself",
    "peer_probe": "probe of the other model",
    "neutral_probe": "neutral reader (sentence embedding)",
    "verbal": "words of the model itself",
    "peer_words": "words of the other model about itself",
    "peer_behavior": "what the other model did",
}

PEER = ("peer_probe", "peer_words", "peer_behavior")
"""Those of them that are the other model's."""

ASKED = {
    ("other_framing", "verbal"): "words about another assistant",
    ("other_framing", "probe"): "probe where it answers about another assistant",
    ("input_question", "verbal"): "words about the input itself",
    ("input_question", "probe"): "probe where it answers about the input",
}
"""Context and row of it -> its name."""


@dataclass(frozen=True)
class Line:
    """One control; `minus` is what the probe has over it on the same pairs, `note` a second line."""

    name: str
    score: str
    minus: str
    estimand: str
    rules_out: str
    note: str = ""


def control_lines(task_result: Mapping[str, Any]) -> list[Line]:
    """Controls and output side of a task, those that could not be scored with the reason."""
    controls = task_result.get("controls") or {}
    within = controls.get("within_text_bins") or {}
    output = task_result.get("output_side") or {}
    contexts = task_result.get("contexts") or {}
    where = f"only pairs within {within.get('n_bins')} bins of the text score"
    return [
        *_selectivity_lines(controls.get("selectivity") or {}),
        *(_line(label, controls[name]) for name, label in FITTED.items() if name in controls),
        *(_line(label, within[name], where) for name, label in WITHIN.items() if name in within),
        *(
            _line(label, contexts[context][row])
            for (context, row), label in ASKED.items()
            if context in contexts
        ),
        *(
            _line(label, output[name], _UNSIGNED if name in _SURENESS else "")
            for name, label in OUTPUT.items()
            if name in output
        ),
    ]


@dataclass(frozen=True)
class PeerTable:
    """Readers on all items and on those where the two models part, and the facts beside them."""

    model: str
    facts: str
    whole: list[Line]
    parted: list[Line]
    parted_note: str
    parted_verdict: str


def peer_table(task_result: Mapping[str, Any]) -> PeerTable | None:
    """What the page shows of the peer; None where the run has none."""
    peer = task_result.get("peer")
    if not peer:
        return None
    parted = peer["disagreement"]
    where = counted(parted["n_items"], parted["n_groups"])
    facts = "The other model's answers could not be scored."
    if peer["agreement"] is not None:
        share = number(100 * peer["agreement"], decimals=0)
        facts = f"The two models do the same on {share}% of the items."
        if peer.get("unscored"):
            facts += f" {peer['unscored']} of the other's answers could not be scored, and are not counted there."
    if parted["reason"]:
        note = f"Where they part ({where}) nothing can be scored: {parted['reason']}."
    else:
        note = f"On the {where} where they part; all readers are trained on all items."
    return PeerTable(
        model=str(peer["model"]),
        facts=facts,
        whole=[_line(READERS[name], row) for name, row in peer["rows"].items()],
        parted=[]
        if parted["reason"]
        else [_line(READERS[name], row) for name, row in parted["rows"].items()],
        parted_note=note,
        parted_verdict="It is above both, each interval clear of 0."
        if parted["beats_peer_and_neutral"]
        else "It is not shown to be above both.",
    )


def _line(label: str, row: Mapping[str, Any], note: str = "") -> Line:
    minus = row.get("probe_minus")
    return Line(
        name=label,
        score=auroc(row),
        minus=gain(minus),
        estimand=row.get("estimand") or "",
        rules_out=row["rules_out"],
        note=row.get("reason") or note,
    )


def _selectivity_lines(selectivity: Mapping[str, Any]) -> Iterator[Line]:
    for name, result in selectivity.items():
        kind = TYPES.get(name, name)
        rules_out = f"a probe that has learned the {kind} by heart"
        if result["true"] is None:
            yield Line(
                f"selectivity: {kind}", auroc(None), gain(None), "", rules_out, result["reason"]
            )
            continue
        items = (
            f"{result['n_items']} items, {result['n_types']} types on both sides of a split; "
            "at the cell selected most often, with all labels"
        )
        draws = f"random labels by type, mean and range of {result['n_draws']} draws"
        true = estimate(result["true"], result["true_ci"])
        control = estimate(result["control"], result["control_range"])
        over = number(result["difference"], signed=True)
        yield Line(
            f"selectivity, {kind}: true labels", true, "", result["estimand"], rules_out, items
        )
        yield Line(
            f"selectivity, {kind}: control labels",
            control,
            over,
            result["estimand"],
            rules_out,
            draws,
        )

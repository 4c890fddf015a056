"""The inequalities of the diagnosis as a page shows them: where on the path each stands, which one names the stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.report.formatting import MISSING, bracket, number

PARSED, UNBIASED = "answers can be parsed", "answers are not biased"
KEPT = "words are as good as the task probe"

_UNSIGNED = (PARSED, "words rank the right way round")
"""Inequalities on a share or an AUROC; the others are differences or lean to one side."""


@dataclass(frozen=True)
class EvidenceRow:
    """One inequality, printed; `decides` marks the one that the stage rests on, or that left it open."""

    name: str
    question: str
    estimate: str
    interval: str
    margin: str
    verdict: str
    would_decide: str
    decides: bool


def evidence_rows(breakdown: Mapping[str, Any]) -> list[EvidenceRow]:
    """Every inequality in the order of the path; none where nothing was diagnosed."""
    found = breakdown.get("evidence") or []
    deciding = deciding_row(breakdown)
    return [
        EvidenceRow(
            name=row["name"],
            question=row.get("question") or "",
            estimate=number(row["estimate"], signed=row["name"] not in _UNSIGNED),
            interval=bracket(row["ci"]) or MISSING,
            margin=number(row.get("margin")),
            verdict=row["verdict"],
            would_decide=_would_decide(row),
            decides=row is deciding,
        )
        for row in found
    ]


def link_of(name: str) -> int | None:
    """Where an inequality stands: 0 prompt to layers, 1 layers to answer slot, 2 slot to words; None: at the words."""
    if name == "task probe beats the text":
        return 0
    if name.endswith(("beats the text", "is as good as the task probe")):
        return 1
    return 2 if name.startswith("words are as good as") and name != KEPT else None


def deciding_row(breakdown: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The inequality that the stage rests on; of an undetermined one that which its sentence names."""
    rows: Sequence[Mapping[str, Any]] = breakdown.get("evidence") or []
    stage = breakdown.get("stage")
    if stage == "undetermined":
        return _left_open(breakdown, rows)
    if stage == "not_transported":
        return _lost_on_the_way(rows)
    at = {"not_beyond_text": 0, "not_read_out": 2}.get(str(stage))
    name = {"unparsed": PARSED, "miscalibrated": UNBIASED, "faithful": KEPT}.get(str(stage))
    return next(
        (
            row
            for row in rows
            if row["name"] == name or (at is not None and link_of(row["name"]) == at)
        ),
        None,
    )


def _left_open(
    breakdown: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The inequality that `open_question` names; older results name it in their sentence alone."""
    question, sentence = breakdown.get("open_question"), breakdown.get("sentence") or ""
    named = [
        row for row in rows if row["name"] == question or (not question and row["name"] in sentence)
    ]
    return next((row for row in named if row["verdict"] == "undecided"), next(iter(named), None))


def _lost_on_the_way(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """What reaches the slot against the task probe, or the better reader there where none beats the text."""
    reaching = [row for row in rows if link_of(row["name"]) == 1]
    beating = [row for row in reaching if row["name"].endswith("beats the text")]
    carried = next((row for row in reaching if row not in beating), None)
    is_lost = carried is not None and carried["verdict"] in ("lost", "partly lost")
    if is_lost or any(row["verdict"] == "beats" for row in beating):
        return carried
    known = [row for row in beating if row["estimate"] is not None]
    return max(known, key=lambda row: row["estimate"], default=None)


def _would_decide(row: Mapping[str, Any]) -> str:
    if row["verdict"] != "undecided":
        return "decided"
    if row.get("groups_needed"):
        return f"about {row['groups_needed']} groups, if the estimate stays"
    return "no number of groups, if the estimate stays"

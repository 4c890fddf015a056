"""The path of information, prompt -> layers -> answer slot -> words, marked where it is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.report.formatting import auroc
from experiments.report.predictors import result_row
from experiments.report.verdict import STAGES, is_inverted, leaning, stage


@dataclass(frozen=True)
class Strip:
    """An AUROC and its interval as lengths on a line of 100 from AUROC 0 to 1."""

    at: float
    low: float
    high: float


@dataclass(frozen=True)
class Station:
    """Where the information may be: what reads it there, how well, and a remark on the place."""

    name: str
    reader: str
    look: str
    score: str
    strip: Strip | None
    mark: str = ""
    note: str = ""


@dataclass(frozen=True)
class Link:
    """The way to the next station: `kept`, `lost`, `unknown`, or `after` it was lost."""

    state: str
    note: str = ""


@dataclass(frozen=True)
class Drawing:
    """Four stations, the three links between them, and the whole in words."""

    stations: tuple[Station, ...]
    links: tuple[Link, ...]
    description: str


KEPT, AFTER = Link("kept"), Link("after")

_LINKS = {
    "not_beyond_text": (Link("lost", "adds too little"), AFTER, AFTER),
    "not_transported": (KEPT, Link("lost", "lost here"), AFTER),
    "not_read_out": (KEPT, KEPT, Link("lost", "lost here")),
    "unparsed": (KEPT, KEPT, KEPT),
    "miscalibrated": (KEPT, KEPT, KEPT),
    "faithful": (KEPT, KEPT, KEPT),
}

_LINK_OF_EVIDENCE = (0, 1, 1, 1, 2)
"""Evidence runs along the path: the link of its first rows; the later ones are about the words."""


def draw_path(task_result: Mapping[str, Any]) -> Drawing:
    """The drawing of a task that was not skipped."""
    where = stage(task_result)
    layer = task_result["probe"].get("layer")
    links = _LINKS.get(where) or _undecided_links(task_result["breakdown"])
    mark, note = _words_mark(where, links, task_result.get("verbal") or {})
    stations = (
        _station("prompt", "text alone", "text", task_result),
        _station("layers" if layer is None else f"layer {layer}", "probe", "probe", task_result),
        _station("answer slot", "probe", "report_probe", task_result),
        _station("words", "yes/no odds", "verbal", task_result, mark, note),
    )
    return Drawing(stations, links, _describe(where, stations, links))


def _undecided_links(breakdown: Mapping[str, Any]) -> tuple[Link, ...]:
    """Kept up to the open inequality that the breakdown's sentence names; all open without one."""
    unknown, sentence = Link("unknown", "undecided"), breakdown.get("sentence") or ""
    for index, row in enumerate(breakdown.get("evidence") or []):
        if row["verdict"] == "undecided" and row["name"] in sentence:
            if index >= len(_LINK_OF_EVIDENCE):
                return KEPT, KEPT, KEPT
            open_link = _LINK_OF_EVIDENCE[index]
            return (KEPT,) * open_link + (unknown,) + (AFTER,) * (2 - open_link)
    return unknown, unknown, unknown


def _station(
    name: str,
    reader: str,
    look: str,
    task_result: Mapping[str, Any],
    mark: str = "",
    note: str = "",
) -> Station:
    row = result_row(task_result, look)
    value, ci = row.get("auroc"), row.get("ci") or (None, None)
    strip = None
    if value is not None:
        low, high = (value if bound is None else bound for bound in ci)
        strip = Strip(*(round(100 * min(max(x, 0.0), 1.0), 2) for x in (value, low, high)))
    return Station(name, reader, look, auroc(row), strip, mark, note)


def _words_mark(where: str, links: Sequence[Link], words: Mapping[str, Any]) -> tuple[str, str]:
    if where == "unparsed":
        return "!", "answers cannot be read"
    if where == "miscalibrated":
        return "!", f"leans to “{leaning(words)}”"
    if where == "faithful":
        return "✓", "said as well as known"
    if where == "undetermined" and all(link == KEPT for link in links):
        return "?", "undecided"
    return ("!", "says the opposite") if is_inverted(words) else ("", "")


def _describe(where: str, stations: Sequence[Station], links: Sequence[Link]) -> str:
    parts = [f"{station.name} ({station.reader}, AUROC {station.score})" for station in stations]
    lost = [
        f"marked {link.note} between {stations[i].name} and {stations[i + 1].name}"
        for i, link in enumerate(links)
        if link.note
    ]
    return f"{STAGES[where]}: " + " to ".join(parts) + "".join(f"; {mark}" for mark in lost) + "."

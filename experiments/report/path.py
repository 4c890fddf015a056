"""The path of information, prompt -> layers -> answer slot -> words, marked where it is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.report.evidence import deciding_row, link_of
from experiments.report.formatting import auroc, bracket, number
from experiments.report.layers import CONTEXTS, has_layers, selected_position
from experiments.report.metric import metric_of
from experiments.report.predictors import result_row
from experiments.report.profile import Profile, profile
from experiments.report.verdict import STAGES, is_inverted, leaning, slot_row, stage


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
    profile: Profile | None = None
    mark: str = ""
    note: str = ""


@dataclass(frozen=True)
class Link:
    """The way to the next station: `kept`, `lost`, `unknown`, or `after` it was lost.

    `estimate` and `interval` are the difference that it rests on, `against` is what that is a difference to, `place`
    the layer and position of the loss.
    """

    state: str
    note: str = ""
    estimate: str = ""
    interval: str = ""
    against: str = ""
    place: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drawing:
    """Four stations, the three links between them, where the loss lies in one sentence, and the whole in words."""

    stations: tuple[Station, ...]
    links: tuple[Link, ...]
    loss: str
    description: str


_STATES = {
    "not_beyond_text": ("lost", "after", "after"),
    "not_transported": ("kept", "lost", "after"),
    "not_read_out": ("kept", "kept", "lost"),
    "unparsed": ("kept", "kept", "kept"),
    "miscalibrated": ("kept", "kept", "kept"),
    "faithful": ("kept", "kept", "kept"),
}

_NOTES = {"lost": "lost here", "unknown": "undecided"}
_AGAINST_SLOT = "against the slot"


def draw_path(task_result: Mapping[str, Any], location: Mapping[str, Any] | None = None) -> Drawing:
    """The drawing of a task that was not skipped.

    Args:
        task_result: one entry of `results["tasks"]`.
        location: the task's entry in `locate.json`, which knows the layer and the position of the loss.
    """
    where = stage(task_result)
    layer = task_result["probe"].get("layer")
    loss = (location or {}).get("loss") or {}
    states = _STATES.get(where) or _undecided_states(task_result["breakdown"])
    links = tuple(
        _link(index, state, task_result["breakdown"], loss) for index, state in enumerate(states)
    )
    mark, note = _words_mark(where, states, task_result.get("verbal") or {})
    stations = (
        _station("prompt", "text alone", "text", task_result),
        _station(
            "layers" if layer is None else f"layer {layer}",
            "probe",
            "probe",
            task_result,
            _context_profile(task_result, "task"),
        ),
        _at_slot(task_result, location),
        _station(
            "words", "yes/no odds", "verbal", task_result, _lens_profile(location), mark, note
        ),
    )
    sentence = loss.get("sentence") or task_result["breakdown"].get("sentence") or ""
    return Drawing(stations, links, sentence, _describe(where, stations, links))


def _at_slot(task_result: Mapping[str, Any], location: Mapping[str, Any] | None) -> Station:
    """The station of the better probe at the answer slot: the one that its links are measured by."""
    row = slot_row(task_result)
    if row == "report_probe":
        profile_there = _context_profile(task_result, "self_prediction")
        return _station("answer slot", "probe", row, task_result, profile_there)
    by_layer = (location or {}).get("by_layer") or []
    moved = [layer["transferred"] for layer in by_layer]
    profile_there = profile(moved, (location or {})["layers"], None) if moved else None
    return _station("answer slot", "layers' probe, moved", row, task_result, profile_there)


def _context_profile(task_result: Mapping[str, Any], context: str) -> Profile | None:
    curves = task_result.get("curves") or {}
    by_position = curves.get(context)
    if not by_position or not has_layers(task_result):
        return None
    row = task_result.get(CONTEXTS[context][0]) or {}
    values = by_position[selected_position(by_position, row)]
    metric = metric_of(task_result)
    return profile(values, curves["layers"], row.get("layer"), metric.chance)


def _lens_profile(location: Mapping[str, Any] | None) -> Profile | None:
    """What the words would have told, had they been read off each layer."""
    words = ((location or {}).get("race") or {}).get("words")
    return profile(words, location["layers"], None) if location and words else None


def _undecided_states(breakdown: Mapping[str, Any]) -> tuple[str, ...]:
    """Kept up to the open inequality that the breakdown's sentence names; all open without one."""
    row = deciding_row(breakdown)
    if row is None:
        return ("unknown",) * 3
    link = link_of(row["name"])
    if link is None:
        return ("kept",) * 3
    return ("kept",) * link + ("unknown",) + ("after",) * (2 - link)


def _link(index: int, state: str, breakdown: Mapping[str, Any], loss: Mapping[str, Any]) -> Link:
    if state == "after":
        return Link(state)
    rows = [row for row in breakdown.get("evidence") or [] if link_of(row["name"]) == index]
    deciding = deciding_row(breakdown)
    # Along a kept way the last inequality counts: the first ones only say that something is there.
    row = deciding if deciding in rows else next(reversed(rows), None)
    note = "adds too little" if index == 0 and state == "lost" else _NOTES.get(state, "")
    if row is None:
        return Link(state, note)
    over_text = row["name"].endswith("beats the text")
    against = "over the text" if over_text else ("", "against the layers", _AGAINST_SLOT)[index]
    return Link(
        state,
        note,
        number(row["estimate"], signed=True),
        bracket(row["ci"]),
        against,
        _place(loss) if state == "lost" else (),
    )


def _place(loss: Mapping[str, Any]) -> tuple[str, ...]:
    parts = []
    if loss.get("layer") is not None:
        ends = ["none" if end is None else str(end) for end in loss.get("layer_ci") or []]
        parts.append(f"layer {loss['layer']}" + (f" [{', '.join(ends)}]" if ends else ""))
    if loss.get("position"):
        parts.append(str(loss["position"]))
    return tuple(parts)


def _station(
    name: str,
    reader: str,
    look: str,
    task_result: Mapping[str, Any],
    layers: Profile | None = None,
    mark: str = "",
    note: str = "",
) -> Station:
    row = result_row(task_result, look)
    value, ci = row.get("auroc"), row.get("ci") or (None, None)
    strip = None
    if value is not None:
        low, high = (value if bound is None else bound for bound in ci)
        strip = Strip(*(round(100 * min(max(x, 0.0), 1.0), 2) for x in (value, low, high)))
    return Station(name, reader, look, auroc(row), strip, layers, mark, note)


def _words_mark(where: str, states: Sequence[str], words: Mapping[str, Any]) -> tuple[str, str]:
    if where == "unparsed":
        return "!", "answers cannot be read"
    if where == "miscalibrated":
        return "!", f"leans to “{leaning(words)}”"
    if where == "faithful":
        return "✓", "said as well as known"
    if where == "undetermined" and set(states) == {"kept"}:
        return "?", "undecided"
    return ("!", "says the opposite") if is_inverted(words) else ("", "")


def _describe(where: str, stations: Sequence[Station], links: Sequence[Link]) -> str:
    parts = [f"{station.name} ({station.reader}, AUROC {station.score})" for station in stations]
    marked = []
    for i, link in enumerate(links):
        if link.note:
            figure = f" ({link.estimate} {link.interval} {link.against})" if link.estimate else ""
            place = f" at {', '.join(link.place)}" if link.place else ""
            between = f"between {stations[i].name} and {stations[i + 1].name}"
            marked.append(f"; marked {link.note} {between}{place}{figure}")
    noted = [f"; {station.name}: {station.note}" for station in stations if station.note]
    return f"{STAGES[where]}: " + " to ".join(parts) + "".join([*marked, *noted]) + "."

"""The words that a run has earned (METHODS section 9): each with its numbers, or with what would test it.

A word is earned by a comparison that was fixed beforehand, withheld where the comparison was made and does not hold,
and not tested where it was not made. It holds of the place at which the comparison was made, and where that place was
chosen by hand, nothing corrects for the choice. What an earned word does not show: anything that a stronger one stands
for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.causal_record import FITS_NEW, LEAD, UNREAD
from experiments.config import RunConfig
from experiments.inequalities import DEFAULT_RULES

if TYPE_CHECKING:
    from experiments.finished import Run

ALPHA = 0.05
"""The largest p-value at which a null is beaten."""

OTHER_ITEMS = "more or other items give it some (`--n`, `--items`), in a new folder"
"""What mends a task without scores: its items are part of what a folder is."""

THE_RUN = "RUN"
"""Stands for the folder of the run in commands, where a file should say the same wherever the run lies."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """A word, whether it was earned (None: not tested), why, in one sentence, and where in the model, if tested."""

    word: str
    earned: bool | None
    reason: str
    place: str | None = None

    @property
    def state(self) -> str:
        """`earned`, `withheld` or `not tested`."""
        return {True: "earned", False: "withheld", None: "not tested"}[self.earned]

    def __str__(self) -> str:
        """The claim in one line."""
        where = f" ({self.place})" if self.place else ""
        return f"{self.state} | {self.word}{where}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """As a table or a page takes it."""
        return asdict(self)


def claims(run: Run, task: str | None = None) -> list[Claim]:
    """The words of METHODS section 9 for one task of a finished run, in their order there.

    Args:
        run: as `load_run` gives it.
        task: None means the only task of the run.

    Raises:
        ValueError: no such task in the run, or several and none named.
    """
    result = run.result(task)
    interventions = run.interventions.get(result["task"])
    return claims_of(result, interventions, run.path, run.config)


def claims_of(
    result: Row, causal: Row | None, folder: Path | str, config: RunConfig
) -> list[Claim]:
    """The same from the results of one task.

    Args:
        result: of the task, from `results.json`.
        causal: of the task, from `causal.json`, or None where nothing was intervened on.
        folder: of the run; stands in the commands that would test what was not tested.
        config: of the run, which says what the probe could choose from.
    """
    if result["skipped"]:
        return [Claim(word, None, f"the task {why_skipped(result)}") for word in _TESTS]
    if "activations" in result:
        why = "an endpoint gives no activations; run the model itself, without --endpoint"
        return [Claim(word, None, why) for word in _TESTS]
    found = []
    for word, test in _TESTS.items():
        earned, reason = test(result, causal, folder)
        place = None if earned is None else _PLACES[word](result, causal, config)
        found.append(Claim(word, earned, reason, place))
    return found


def why_skipped(result: Row) -> str:
    """Why a task has no scores, and what would give it some."""
    return f"was skipped ({result['skipped']}); {OTHER_ITEMS}"


def is_decodable(result: Row) -> bool:
    """Whether the probe beats the whole-group permutation null of its grid."""
    p_max = result["probe"].get("p_max")
    return p_max is not None and p_max < ALPHA


def is_beyond_text(result: Row) -> bool:
    """Whether the interval of what the probe adds to the text, stacked, lies above 0."""
    return _is_above_zero((result.get("gap") or {}).get("beyond_text"))


def peer_command(folder: Path | str) -> str:
    """What adds a peer to a finished run and redoes only what depends on it."""
    return f"selfprobe run --config {folder}/config.yaml --out {folder} --peer MODEL"


def contexts_command(folder: Path | str) -> str:
    """What adds the other framing and the input question to a finished run."""
    return f"selfprobe run --config {folder}/config.yaml --out {folder} --other-contexts"


def same_command(folder: Path | str) -> str:
    """What does the stages that a run lacks."""
    return f"selfprobe run --config {folder}/config.yaml --out {folder}"


def causal_command(folder: Path | str) -> str:
    """What intervenes on a finished run."""
    return f"selfprobe causal {folder}"


Verdict = tuple[bool | None, str]


def _decodable(result: Row, causal: Row | None, folder: Path | str) -> Verdict:
    probe = result["probe"]
    figures = f"AUROC {_shown(probe, 'auroc')}, p = {probe.get('p_max')} over the whole grid"
    if is_decodable(result):
        return True, f"the probe beats the whole-group permutation null ({figures})"
    return False, f"the probe does not beat the whole-group permutation null ({figures})"


def _beyond_text(result: Row, causal: Row | None, folder: Path | str) -> Verdict:
    gain = (result.get("gap") or {}).get("beyond_text")
    figures = f"stacked gain {_shown(gain)}"
    if not is_beyond_text(result):
        return False, f"text and probe stacked do not beat the text alone ({figures})"
    if result["breakdown"]["stage"] == "not_beyond_text":
        margin = DEFAULT_RULES.delta
        return False, f"the gain over the text is under the margin of {margin:g} ({figures})"
    return True, f"text and probe stacked beat the text alone ({figures})"


def _privileged(result: Row, causal: Row | None, folder: Path | str) -> Verdict:
    peer = result.get("peer")
    if peer is None:
        return None, _untested("no other model read the items", peer_command(folder))
    parted = peer["disagreement"]
    where = f"on the {parted['n_items']} items where it and {peer['model']} part"
    if parted["reason"]:
        more = "more items or another peer would test it (`--n`, `--peer`, a new folder)"
        return None, f"{where} nothing can be scored ({parted['reason']}); {more}"
    rows = parted["rows"]
    figures = (
        f"AUROC {_shown(rows['probe'], 'auroc')}, {_shown(rows['peer_probe'].get('probe_minus'))} above the peer's "
        f"probe and {_shown(rows['neutral_probe'].get('probe_minus'))} above a neutral reader"
    )
    if parted["beats_peer_and_neutral"]:
        return (
            True,
            f"{where} the probe beats both the peer's probe and a neutral reader ({figures})",
        )
    return (
        False,
        f"{where} the probe does not beat both the peer's probe and a neutral reader ({figures})",
    )


def _introspection(result: Row, causal: Row | None, folder: Path | str) -> Verdict:
    over_text = (result.get("gap") or {}).get("verbal_minus_text")
    if over_text is None:
        return None, _untested("these results hold no words against the text", same_command(folder))
    if not _is_above_zero(over_text):
        return False, f"its words do not beat the text (difference in AUROC {_shown(over_text)})"
    peer = result.get("peer")
    if peer is None:
        return None, _untested("no other model was asked", peer_command(folder))
    leads = {name: peer["rows"].get(name, {}).get("verbal_minus") for name in PEER_BASELINES}
    missing = [what for name, what in PEER_BASELINES.items() if leads[name] is None]
    if missing:
        return None, _untested(f"these results lack {missing[0]}", same_command(folder))
    figures = ", ".join(
        [f"above the text {_shown(over_text)}"]
        + [f"above {what} {_shown(leads[name])}" for name, what in PEER_BASELINES.items()]
    )
    if all(map(_is_above_zero, leads.values())):
        return True, f"its words beat the text and every reading of the peer ({figures})"
    return False, f"its words do not beat every reading of the peer ({figures})"


PEER_BASELINES = {
    "peer_words": "the peer's words",
    "peer_behavior": "what the peer does",
    "peer_probe": "the peer's probe",
}
"""Rows of the peer that a self-report must beat -> what they are."""


def _tracks(result: Row, causal: Row | None, folder: Path | str) -> Verdict:
    table = (causal or {}).get("dissociation") or {}
    if causal is None or not table.get("pattern"):
        return None, _untested(_NOTHING_CHANGED, causal_command(folder))
    if not _is_within_guards(causal):
        return None, _BEYOND_GUARDS
    sentence = table.get("sentence", "").removeprefix("Undecided: ").rstrip(".")
    found = f"the dissociation table says: {table['pattern']} ({sentence})"
    if table["pattern"] == "tracks":
        return True, found
    if table["pattern"] != "undecided":
        return False, found
    shift = (causal.get("shift") or {}).get("probe") or {}
    verdict = shift.get("verdict", "cannot tell")
    # Along the probe's direction alone: verdicts are about that one, and a report may repeat a system message.
    if verdict == FITS_NEW and _is_above_zero(shift.get(LEAD)):
        figures = (
            f"log-odds toward it {_shown(shift['self_report'])}, more than what is said of another by "
            f"{_shown(shift[LEAD])}"
        )
        return True, f"the shift test says: steered, the report {FITS_NEW} ({figures}); {found}"
    why = f" ({shift['reason']})" if shift.get("reason") else ""
    return False, f"{found}; and the shift test says: {verdict}{why}"


def _causal(result: Row, causal: Row | None, folder: Path | str) -> Verdict:
    if causal is None:
        return None, _untested(_NOTHING_CHANGED, causal_command(folder))
    steered = (causal.get("steering") or {}).get("behavior")
    if steered is None:
        why = (causal.get("skipped") or {}).get("behavior", "it has no readout")
        return None, f"the behavior could not be read ({why})"
    if not _is_within_guards(causal):
        return None, _BEYOND_GUARDS
    unchanged = ((causal.get("ablation") or {}).get("behavior") or {}).get("gap_before")
    if unchanged is not None and not _is_above_zero(unchanged):
        return None, (
            f"{UNREAD} ({_shown(unchanged)} nats between them); a task may name openings that do"
        )
    p_random, p_shuffled = steered["p_random"], steered["p_shuffled"]
    figures = f"p = {p_random} against random and {p_shuffled} against shuffled-label directions"
    row = ((causal.get("dissociation") or {}).get("rows") or {}).get("behavior") or {}
    if row.get("moved") not in (None, "moves"):
        return False, f"whether steering moves the behavior: {row['moved']} ({figures})"
    if row and row["estimate"] < 0:
        return False, f"steering toward the outcome moves the behavior away from it ({figures})"
    if max(p_random, p_shuffled) < ALPHA:
        moves = "steering along the direction moves the behavior more than the nulls do"
        return True, f"{moves} ({figures})"
    return False, f"steering along the direction does not beat both nulls ({figures})"


_TESTS = {
    "decodable": _decodable,
    "beyond the text": _beyond_text,
    "privileged": _privileged,
    "introspection": _introspection,
    "tracks": _tracks,
    "causal": _causal,
}


def _of_probe(result: Row, causal: Row | None, config: RunConfig) -> str:
    """Where the probe reads: the cell that was selected most often."""
    return f"{_cell(result['probe'])}, selected within folds{_narrowed(config)}"


def _of_words(result: Row, causal: Row | None, config: RunConfig) -> str:
    return "the answer slot of the self-prediction, fixed beforehand"


def _of_change(result: Row, causal: Row | None, config: RunConfig) -> str:
    """Where the states were changed."""
    assert causal is not None
    by_hand = [name for name in ("layer", "position") if causal["settings"][name] is not None]
    if by_hand:
        return f"{_cell(causal['place'])}; {_chosen(by_hand)}"
    return f"{_cell(causal['place'])}, where the run's probe was selected{_narrowed(config)}"


_PLACES = {
    **dict.fromkeys(("decodable", "beyond the text", "privileged"), _of_probe),
    "introspection": _of_words,
    **dict.fromkeys(("tracks", "causal"), _of_change),
}


def _cell(place: Row) -> str:
    layer = [] if place["layer"] is None else [f"layer {place['layer']}"]
    return ", ".join([place["site"], *layer, place["position"]])


def _narrowed(config: RunConfig) -> str:
    """What of the places to select from is not as it is by default."""
    given = [
        name
        for name in ("site", "layers", "positions")
        if getattr(config, name) != RunConfig.model_fields[name].default
    ]
    return f"; {_chosen(given)}" if given else ""


def _chosen(names: list[str]) -> str:
    return f"{' and '.join(names)} chosen by hand, which nothing corrects for"


_NOTHING_CHANGED = "nothing was intervened on by this version"
_BEYOND_GUARDS = "even the smallest dose harms more than the outcome, so no effect is interpreted"


def _is_within_guards(causal: Row) -> bool:
    return bool((causal.get("guards") or {}).get("passed", True))


def _untested(why: str, command: str) -> str:
    return f"{why}; `{command}` tests it"


def _is_above_zero(row: Row | None) -> bool:
    low = ((row or {}).get("ci") or [None])[0]
    return low is not None and low > 0


def _shown(row: Row | None, key: str = "estimate") -> str:
    """An estimate with its interval."""
    if row is None or row.get(key) is None:
        return "unknown"
    low, high = row["ci"]
    return f"{row[key]:.2f} [{low:.2f}, {high:.2f}]"

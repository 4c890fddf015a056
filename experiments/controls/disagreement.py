"""The peer's probe, its words and a neutral reader beside the model's own, on all items and where the two models part.

Trained on all items, never on the subset. On the subset the peer's own quirks pull its probe below chance without any
self-knowledge of the model: the neutral reader, which has no quirks of behavior, shows how far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.controls.fitted import fit_cells
from experiments.controls.peer import Peer
from experiments.controls.peer_words import peer_log_odds
from experiments.controls.rows import ControlRow, Scoring
from experiments.predictors import Fitting, averaged_log_odds
from experiments.records import json_number
from experiments.result_json import cell_json, gap_json
from experiments.scored import Scored
from experiments.task_data import TaskData
from probes import Interval

NEUTRAL = "embedding"
"""The text baseline that reads for nobody."""


def peer_results(
    data: TaskData,
    peer: Peer,
    neutral: Scored,
    verbal: Scored,
    fitting: Fitting,
    scoring: Scoring,
) -> tuple[dict[str, Any], list[ControlRow]]:
    """What the peer knows of this model: its part of `results.json`, and its rows.

    Args:
        data: the items of this model.
        peer: what it said, did and had in its states.
        neutral: a reader of the text that has no behavior.
        verbal: this model's own words.
        fitting: as the probe was fitted.
        scoring: the items and pairs, with this model's probe.
    """
    cells = fit_cells(data, peer.cache, list(peer.cache.cells()), fitting)
    read = Scored.of(cells.nested)
    did = [peer.behavior[item] for item in data.ids]
    rates = Scored.fixed(np.array([0.5 if row.rate is None else row.rate for row in did]))
    log_odds = peer_log_odds(peer.words, data.ids, data.elicitations)
    said = Scored.fixed(averaged_log_odds(log_odds, scoring.folds))
    beside = _Beside(scoring, verbal)
    whole = {
        "peer_probe": beside.row(
            "peer_probe",
            read,
            "another model's states, trained on this model's labels",
            **cell_json(cells.chosen),
        ),
        "neutral_probe": beside.row(
            "neutral_probe", neutral, "a reader of the text that is no model of the kind"
        ),
        "peer_words": beside.row("peer_words", said, "what another model says of itself"),
        "peer_behavior": beside.row(
            "peer_behavior", rates, "what another model does with the item"
        ),
    }
    outcomes = np.array(
        [np.nan if row.outcome is None else row.outcome for row in did], dtype=float
    )
    known = ~np.isnan(outcomes)
    parted = known & (outcomes != data.outcome)
    subset, parts = scoring.among(parted, read, neutral, verbal, said)
    peer_part, neutral_part, verbal_part, said_part = parts
    on_subset = _on_subset(subset, *parts)
    result = {
        "model": peer.name,
        "fingerprint": dict(peer.cache.fingerprint),
        "base_rate": json_number(outcomes[known].mean()) if known.any() else None,
        "unscored": int((~known).sum()),
        "agreement": json_number((outcomes == data.outcome)[known].mean()) if known.any() else None,
        "rows": {name: row.to_json() for name, row in whole.items()},
        "disagreement": {
            "n_items": int(parted.sum()),
            "n_groups": len(set(data.groups[parted])),
            "base_rate": json_number(data.outcome[parted].mean()) if parted.any() else None,
            "reason": subset.reason,
            "rows": {name: row.to_json() for name, row in on_subset.items()},
            "beats_peer_and_neutral": _beats_both(subset, subset.probe, peer_part, neutral_part),
            "words_beat_peer_and_neutral": _beats_both(
                subset, verbal_part, said_part, neutral_part
            ),
        },
    }
    return result, [*whole.values(), *on_subset.values()]


@dataclass(frozen=True)
class _Beside:
    """Rows that stand beside the probe, and beside the words."""

    scoring: Scoring
    verbal: Scored

    def row(self, name: str, scored: Scored, rules_out: str, **about: Any) -> ControlRow:
        """As `Scoring.row`; `verbal_minus` is the paired difference of the words and it."""
        if scored is not self.verbal and self.scoring.reason is None:
            about["verbal_minus"] = gap_json(self.scoring.difference(self.verbal, scored))
        return self.scoring.row(name, "peer", scored, rules_out, **about)


def _on_subset(
    subset: Scoring, peer: Scored, neutral: Scored, verbal: Scored, said: Scored
) -> dict[str, ControlRow]:
    where = "where the two models part"
    beside = _Beside(subset, verbal)
    named = {
        "probe": subset.probe,
        "peer_probe": peer,
        "neutral_probe": neutral,
        "verbal": verbal,
        "peer_words": said,
    }
    return {
        name: beside.row(f"{name}_on_disagreement", scored, where) for name, scored in named.items()
    }


def _beats_both(subset: Scoring, own: Scored, peer: Scored, neutral: Scored) -> bool | None:
    """Whether `own` is above both readers there, both intervals clear of 0; None where nothing is scored."""
    if subset.reason is not None:
        return None
    gaps: list[Interval] = [subset.difference(own, other) for other in (peer, neutral)]
    return all(gap.low > 0 for gap in gaps)

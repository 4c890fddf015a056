"""The peer's probe and a neutral reader beside the model's own, on all items and where the two models part.

Trained on all items, never on the subset. On the subset the peer's own quirks pull its probe below chance without any
self-knowledge of the model: the neutral reader, which has no quirks of behavior, shows how far.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.controls.fitted import fit_cells
from experiments.controls.peer import Peer
from experiments.controls.rows import ControlRow, Scoring
from experiments.predictors import Fitting
from experiments.records import json_number
from experiments.result_json import cell_json
from experiments.scored import Scored
from experiments.task_data import TaskData
from probes import Interval

NEUTRAL = "embedding"
"""The text baseline that reads for nobody."""


def peer_results(
    data: TaskData, peer: Peer, neutral: Scored, fitting: Fitting, scoring: Scoring
) -> tuple[dict[str, Any], list[ControlRow]]:
    """What the peer knows of this model: its part of `results.json`, and its rows."""
    cells = fit_cells(data, peer.cache, list(peer.cache.cells()), fitting)
    read = Scored.of(cells.nested)
    did = [peer.behavior[item] for item in data.ids]
    rates = np.array([0.5 if row.rate is None else row.rate for row in did])
    whole = {
        "peer_probe": scoring.row(
            "peer_probe",
            "peer",
            read,
            "another model's states, trained on this model's labels",
            **cell_json(cells.chosen),
        ),
        "neutral_probe": scoring.row(
            "neutral_probe", "peer", neutral, "a reader of the text that is no model of the kind"
        ),
        "peer_behavior": scoring.row(
            "peer_behavior", "peer", Scored.fixed(rates), "what another model does with the item"
        ),
    }
    outcomes = np.array(
        [np.nan if row.outcome is None else row.outcome for row in did], dtype=float
    )
    known = ~np.isnan(outcomes)
    parted = known & (outcomes != data.outcome)
    subset, (peer_part, neutral_part) = scoring.among(parted, read, neutral)
    on_subset = _on_subset(subset, peer_part, neutral_part)
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
            "beats_peer_and_neutral": _beats_both(subset, peer_part, neutral_part),
        },
    }
    return result, [*whole.values(), *on_subset.values()]


def _on_subset(subset: Scoring, peer: Scored, neutral: Scored) -> dict[str, ControlRow]:
    where = "where the two models part"
    named = {"probe": subset.probe, "peer_probe": peer, "neutral_probe": neutral}
    return {
        name: subset.row(f"{name}_on_disagreement", "peer", scored, where)
        for name, scored in named.items()
    }


def _beats_both(subset: Scoring, peer: Scored, neutral: Scored) -> bool | None:
    """Whether the probe is above both readers there, both intervals clear of 0; None where nothing is scored."""
    if subset.reason is not None:
        return None
    gaps: list[Interval] = [subset.difference(subset.probe, other) for other in (peer, neutral)]
    return all(gap.low > 0 for gap in gaps)

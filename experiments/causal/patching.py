"""States of one prompt put into another: from the task's prompt into the self-prediction prompt, and back.

The state at a named position after the place's block is replaced by that of a donor: another item of the opposite
outcome, of the same, or any. *Recovery* is how much of the way to the donor's own log-odds that takes the recipient:
the slope of (patched - own) on (donor's - own) through the origin, 1 all of it, 0 nothing. The *label effect* is the
movement by the donor of the opposite outcome minus that by the donor of the same, counted toward outcome 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from experiments.causal.effects import effect_of, ratio
from experiments.causal.readouts import Readouts
from experiments.causal.store import Store
from experiments.causal.subject import Subject
from experiments.causal.sweep import Sweep
from experiments.progress import Advance
from hooks import CaptureSpec, Prompt, capture, render
from hooks.halfway import go_on, read_halfway
from hooks.positions import token_range

DONORS = ("opposite", "same", "random")

POSITIONS: Mapping[str, tuple[str, str]] = {
    "behavior": ("instruction_last", "prompt_last"),
    "self_report": ("quote_last", "prompt_last"),
}
"""Readout -> where its prompt is patched: the end of the item's text, and the answer slot."""

CONTEXTS = {"behavior": "task", "self_report": "self_prediction"}


@dataclass(frozen=True)
class Donors:
    """For every recipient one donor of each kind, as rows of the sweep; recipients that lack one are left out."""

    recipients: tuple[int, ...]
    of_kind: Mapping[str, tuple[int, ...]]


def choose_donors(
    outcome: np.ndarray, groups: np.ndarray, order: np.ndarray, n: int, seed: int
) -> Donors:
    """Draw donors among the items that were asked in the same `order` as the recipient, from other groups."""
    rng = np.random.default_rng(seed)
    recipients: list[int] = []
    drawn: dict[str, list[int]] = {kind: [] for kind in DONORS}
    for row in range(min(n, len(outcome))):
        others = (order == order[row]) & (groups != groups[row])
        pools = {
            "opposite": np.flatnonzero(others & (outcome != outcome[row])),
            "same": np.flatnonzero(others & (outcome == outcome[row])),
            "random": np.flatnonzero(others),
        }
        if all(len(pool) for pool in pools.values()):
            recipients.append(row)
            for kind, pool in pools.items():
                drawn[kind].append(int(rng.choice(pool)))
    return Donors(tuple(recipients), {kind: tuple(rows) for kind, rows in drawn.items()})


def patch_all(
    subject: Subject,
    sweep: Sweep,
    readouts: Readouts,
    donors: Donors,
    store: Store,
    advance: Advance,
) -> list[dict[str, Any]]:
    """`patching` of `causal.json`: a row a pair of contexts and positions; `advance(1)` a recipient and readout."""
    states = _LazyStates(subject, readouts)
    found = []
    outcome = subject.outcome[list(sweep.chosen)]
    groups = subject.groups[list(sweep.chosen)]
    names = [name for name in POSITIONS if name in readouts.slots]
    pairs = [(source, at) for source in names for at in range(2)]
    for into in names:
        measured = []
        for place, recipient in enumerate(donors.recipients):
            given = [donors.of_kind[kind][place] for kind in DONORS]

            def measure(
                into: str = into, recipient: int = recipient, given: list[int] = given
            ) -> Any:
                vectors = torch.stack(
                    [states.at(source, at)[row] for source, at in pairs for row in given]
                )
                positions = [POSITIONS[into][at] for _, at in pairs for _ in given]
                return _patched(subject, readouts, into, recipient, positions, vectors)

            measured.append(store.get(f"patch:{into}:{recipient}", measure))
            advance(1)
        values = np.array(measured).reshape(len(donors.recipients), len(pairs), len(DONORS))
        for number, (source, at) in enumerate(pairs):
            row = {
                "from": CONTEXTS[source],
                "from_position": POSITIONS[source][at],
                "into": CONTEXTS[into],
                "into_position": POSITIONS[into][at],
                "readout": into,
            }
            found.append(
                row | _effects(values[:, number], sweep.base[into], donors, outcome, groups)
            )
    return found


def _effects(
    patched: Float[np.ndarray, "recipient donor"],
    base: Float[np.ndarray, " item"],
    donors: Donors,
    outcome: np.ndarray,
    groups: np.ndarray,
) -> dict[str, Any]:
    rows = np.array(donors.recipients)
    movement = patched - base[rows][:, None]
    recovery = {}
    for kind_number, kind in enumerate(DONORS):
        way = base[list(donors.of_kind[kind])] - base[rows]
        recovery[kind] = ratio(movement[:, kind_number] * way, way**2, groups[rows]).to_json()
    toward_one = np.where(outcome[rows] == 0, 1.0, -1.0)
    label = toward_one * (movement[:, 0] - movement[:, 1])
    return {"recovery": recovery, "label_effect": effect_of(label, groups[rows]).to_json()}


def _patched(
    subject: Subject,
    readouts: Readouts,
    into: str,
    recipient: int,
    positions: Sequence[str],
    vectors: Float[Tensor, "change d_model"],
) -> list[float]:
    """Log-odds of a recipient with each vector at its position."""
    slot = readouts.slots[into][recipient]
    rendered = render(subject.model, slot.prompt)
    first = min(positions, key=lambda position: token_range(rendered, position)[0])
    halfway = read_halfway(subject.model, slot.prompt, subject.place.block, first)
    states = halfway.states.repeat(len(vectors), 1, 1)
    for row, position in enumerate(positions):
        states[row, token_range(rendered, position)[0] - halfway.start] = vectors[row]
    values: list[float] = slot.log_odds(go_on(subject.model, halfway, states)).tolist()
    return values


class _LazyStates:
    """The donors' states, captured when the first of a context is needed: a run picked up may need none."""

    def __init__(self, subject: Subject, readouts: Readouts) -> None:
        self._subject = subject
        self._readouts = readouts
        self._held: dict[str, Float[Tensor, "item position d_model"]] = {}

    def at(self, readout: str, position: int) -> Float[Tensor, "item d_model"]:
        """States of all measured items at a position of `POSITIONS`."""
        if readout not in self._held:
            prompts = [slot.prompt for slot in self._readouts.slots[readout]]
            self._held[readout] = _states(self._subject, prompts, POSITIONS[readout])
        return self._held[readout][:, position]


def _states(
    subject: Subject, prompts: Sequence[Prompt], positions: tuple[str, ...]
) -> Float[Tensor, "item position d_model"]:
    place = subject.place
    spec = CaptureSpec(sites=(place.site,), layers=(place.layer,), positions=positions)
    by_id = {
        id: states[0]
        for batch in capture(subject.model, prompts, spec)
        for id, states in zip(batch.ids, batch.sites[place.site], strict=True)
    }
    return torch.stack([by_id[prompt.id] for prompt in prompts])

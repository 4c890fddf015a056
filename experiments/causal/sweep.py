"""The interventions themselves: every item, every readout, along every direction.

A prompt is read up to the place once; what is changed there is a small array, and only the layers above it are computed
for each change. The same directions are applied in whichever prompt is being read: an intervention in the task's prompt
cannot move a report, which is made in another pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.causal.directions import FITTED, Directions
from experiments.causal.readouts import Readouts, Slot
from experiments.causal.store import Store
from experiments.causal.subject import Place, Subject
from experiments.progress import Advance
from hooks import CaptureSpec, Model, Prompt, capture
from hooks.halfway import go_on, read_halfway

RELATIVE_DOSES = (-1.0, -0.5, 0.5, 1.0)
"""Doses of the dose-response, in multiples of the test dose."""

ABLATIONS = ("mean", "zero")


@dataclass(frozen=True)
class Sweep:
    """Log-odds after every change, item by item.

    Attributes:
        chosen: the measured items, as numbers of the subject's; the first `n_null_items` along null directions too.
        base: readout -> unchanged log-odds.
        steered: readout -> `[item, direction, dose]`, NaN where it was not measured.
        ablated: readout -> `[item, direction, ablation]`, likewise.
    """

    chosen: tuple[int, ...]
    n_null_items: int
    doses: tuple[float, ...]
    base: Mapping[str, Float[np.ndarray, " item"]]
    steered: Mapping[str, Float[np.ndarray, "item direction dose"]]
    ablated: Mapping[str, Float[np.ndarray, "item direction ablation"]]


def sweep(
    subject: Subject,
    directions: Directions,
    readouts: Readouts,
    chosen: Sequence[int],
    n_null_items: int,
    test_dose: float,
    store: Store,
    advance: Advance,
) -> Sweep:
    """Measure every slot; calls `advance(1)` after each."""
    doses = tuple(test_dose * relative for relative in RELATIVE_DOSES)
    n_items, n_directions = len(chosen), len(directions.kinds)
    base, steered, ablated = {}, {}, {}
    for name, slots in readouts.slots.items():
        base[name] = np.full(n_items, np.nan)
        steered[name] = np.full((n_items, n_directions, len(doses)), np.nan)
        ablated[name] = np.full((n_items, n_directions, len(ABLATIONS)), np.nan)
        context = _Context(subject, directions, slots, directions.half_of[list(chosen)])
        for row in range(n_items):
            plan = _plan(directions, doses, with_nulls=row < n_null_items)
            part = f"{name}:{slots[row].prompt.id}"
            found = store.get(part, partial(context.measure, row, plan))
            base[name][row] = found[0]
            for (direction, dose), value in zip(plan.steps, found[1:], strict=False):
                steered[name][row, direction, dose] = value
            for (direction, kind), value in zip(
                plan.ablations, found[1 + len(plan.steps) :], strict=True
            ):
                ablated[name][row, direction, kind] = value
            advance(1)
    return Sweep(tuple(chosen), n_null_items, doses, base, steered, ablated)


@dataclass(frozen=True)
class Plan:
    """What is done to one slot: (direction, dose) steps, then (direction, ablation) pairs."""

    steps: tuple[tuple[int, int], ...]
    ablations: tuple[tuple[int, int], ...]
    doses: tuple[float, ...]


def _plan(directions: Directions, doses: tuple[float, ...], *, with_nulls: bool) -> Plan:
    """The fitted directions everywhere; nulls at the test dose, those that are shown (the probe's) at all doses. Of the
    nulls of either direction as many are ablated."""
    every = range(len(doses))
    steps = [(row, dose) for row in range(len(FITTED)) for dose in every]
    ablations = [(row, kind) for row in range(len(FITTED)) for kind in range(len(ABLATIONS))]
    if with_nulls:
        last = len(doses) - 1
        nulls = range(len(FITTED), len(directions.kinds))
        shown = {name: [row for rows in directions.shown(name) for row in rows] for name in FITTED}
        drawn = shown[FITTED[0]]
        steps += [(row, dose) for row in nulls for dose in every if dose == last or row in drawn]
        ablations += [(row, 0) for rows in shown.values() for row in rows]
    return Plan(tuple(steps), tuple(ablations), doses)


@dataclass(frozen=True)
class _Context:
    """The prompts of one readout, an item each, and the half of every item."""

    subject: Subject
    directions: Directions
    slots: Sequence[Slot]
    half: Int[np.ndarray, " item"]

    @cached_property
    def means(self) -> tuple[Float[Tensor, "tail d_model"], ...]:
        """For the items of either half, the mean states of the other half's prompts, token by token.

        Where what follows the instruction is not as many tokens in all prompts (a model without a chat template may
        join letters across), tokens are counted from the end, and the shortest decides.
        """
        model, place = self.subject.model, self.subject.place
        prompts = [slot.prompt for slot in self.slots]
        states: dict[str, Float[Tensor, "tail d_model"]] = {}
        for tail, alike in by_tail(place, model, prompts).items():
            spec = CaptureSpec(sites=(place.site,), layers=(place.layer,), positions=tail)
            for batch in capture(model, [prompts[row] for row in alike], spec):
                states |= dict(zip(batch.ids, batch.sites[place.site][:, 0], strict=True))
        shortest = min(map(len, states.values()))
        found = torch.stack([states[prompt.id][-shortest:] for prompt in prompts])
        return tuple(found[torch.tensor(self.half != one)].mean(dim=0) for one in (0, 1))

    def measure(self, row: int, plan: Plan) -> list[float]:
        """Log-odds of an item unchanged, after every step, and after every ablation."""
        model, place, slot = self.subject.model, self.subject.place, self.slots[row]
        half = int(self.half[row])
        halfway = read_halfway(model, slot.prompt, place.block, place.start)
        vectors = torch.tensor(self.directions.vectors[half], dtype=torch.float32)
        means = self.means[half]
        n_changed = len(place.tail_of(model, slot.prompt))
        own = halfway.states[-n_changed:]
        ablated = own[-len(means) :]
        changes = [torch.zeros_like(own)]
        changes += [
            (plan.doses[dose] * self.directions.unit * vectors[number]).expand_as(own)
            for number, dose in plan.steps
        ]
        changes += [
            torch.cat([torch.zeros_like(own[: -len(means)]), toward(ablated, vectors[number], to)])
            for number, kind in plan.ablations
            for to in [means if ABLATIONS[kind] == "mean" else None]
        ]
        states = halfway.states.repeat(len(changes), 1, 1)
        states[:, -n_changed:] += torch.stack(changes)
        values: list[float] = slot.log_odds(go_on(model, halfway, states)).tolist()
        return values


def by_tail(
    place: Place, model: Model, prompts: Sequence[Prompt]
) -> dict[tuple[str, ...], list[int]]:
    """The positions that are changed -> the prompts, by number, of which they are all."""
    found: dict[tuple[str, ...], list[int]] = {}
    for row, prompt in enumerate(prompts):
        found.setdefault(place.tail_of(model, prompt), []).append(row)
    return found


def toward(
    own: Float[Tensor, "tail d_model"],
    unit: Float[Tensor, "d_model"],
    mean: Float[Tensor, "tail d_model"] | None,
) -> Float[Tensor, "tail d_model"]:
    """What ablation along a unit direction adds: it takes each token's component to that of the mean, or to zero."""
    wanted = torch.zeros(len(own)) if mean is None else mean @ unit
    change: Tensor = (wanted - own @ unit)[:, None] * unit
    return change

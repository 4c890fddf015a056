"""The shift test: the behavior is changed; does the report made under the change fit the changed behavior, or the old?

The behavior is changed by steering at the test dose, to either side, or by a system message that asks for it. *Fit* is
of the items whose outcome flipped: the report's log-odds under the change where the model now does what it did not,
minus those where it no longer does, halved. Over 0 the report fits what the model does now, under 0 what it did before.
Either side weighs the same, so that a report which any change pushes to one side fits neither; with flips to one side
alone nothing can be told.

What it does not show: that a report which repeats the system message looked at anything but that message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from experiments.asked import samples_of
from experiments.behavior import LocalRunner, label_behavior
from experiments.causal.directions import FITTED, Directions
from experiments.causal.effects import Effect
from experiments.causal.readouts import Readouts, Slot, behind_system, order_of
from experiments.causal.store import Store
from experiments.causal.subject import Subject
from experiments.causal.sweep import Sweep, by_tail
from experiments.causal_record import FITS_NEW, LEAD
from experiments.progress import Advance
from experiments.tasks import Item
from hooks import Steer, intervene
from hooks.halfway import go_on, read_halfway
from probes.uncertainty import checked_groups, jackknife_variance, t_quantile

SIDES = (("toward outcome 1", 1), ("toward outcome 0", -1))
SYSTEM = "system message"
REPORTS = ("self_report", "other_report")
CHANGES = (*FITTED, SYSTEM)
N_STEPS = len(CHANGES) * len(SIDES)
"""Steps that `shift_test` reports."""
MIN_GROUPS = 5
"""On either side, under which the spread of a mean is hardly known."""

FITS_OLD = "fits the old behavior"
UNDECIDED = "undecided"
CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Shifted:
    """What a change of the behavior did, a row an item and side.

    Attributes:
        before, after: outcomes; `after` is NaN where it could not be scored.
        reports: report -> log-odds under the change, from the median of the unchanged ones asked in the same order.
    """

    before: Float[np.ndarray, " row"]
    after: Float[np.ndarray, " row"]
    reports: Mapping[str, Float[np.ndarray, " row"]]
    groups: np.ndarray

    def to_json(self) -> dict[str, Any]:
        """A row of `shift`."""
        flipped = ~np.isnan(self.after) & (self.after != self.before)
        after, groups = self.after[flipped], self.groups[flipped]
        found: dict[str, Any] = {
            "n": len(self.before),
            "n_unscored": int(np.isnan(self.after).sum()),
            "n_flipped": int(flipped.sum()),
            "to_one": int((after == 1).sum()),
            "to_zero": int((after == 0).sum()),
        }
        few = [
            f"the outcome of {found[name]} items ({n} groups) flipped to {side}, at least {MIN_GROUPS} groups are "
            "needed"
            for name, side in (("to_one", 1), ("to_zero", 0))
            if (n := len(set(groups[after == side]))) < MIN_GROUPS
        ]
        if few:
            return found | {"verdict": CANNOT_TELL, "reason": "; ".join(few)}
        own, other = (self.reports[name][flipped] for name in REPORTS)
        rows = {REPORTS[0]: own, REPORTS[1]: other, LEAD: own - other}
        fits = {name: fit_of(values, after, groups) for name, values in rows.items()}
        toward = own[after == 1].mean() > 0 > own[after == 0].mean()
        verdict, reason = _verdict(fits[REPORTS[0]], fits[LEAD], bool(toward))
        return (
            found
            | {name: fit.to_json() for name, fit in fits.items()}
            | {"verdict": verdict, "reason": reason}
        )


def fit_of(
    report: Float[np.ndarray, " row"], after: Float[np.ndarray, " row"], groups: np.ndarray
) -> Effect:
    """Half the difference of the mean reports of both outcomes, with a 95% interval that leaves out a group at a time.

    Student's t has the degrees of freedom of the side with fewer groups, which decides how well the spread is known.
    What is the same on both sides, a push or a preference, cancels.
    """
    codes = checked_groups(groups, len(report))
    sides = [after == side for side in (1, 0)]
    counts, sums = (
        np.stack([np.bincount(codes, side * values) for side in sides])
        for values in (np.ones_like(report), report)
    )  # [side, group]

    def fit(n: np.ndarray, total: np.ndarray) -> Float[np.ndarray, "*group"]:
        halved: np.ndarray = (total[0] / n[0] - total[1] / n[1]) / 2
        return halved

    n_groups = counts.shape[1]
    every = [part.sum(axis=1, keepdims=True) for part in (counts, sums)]
    left_out = fit(every[0] - counts, every[1] - sums)
    fewest = min(len(np.unique(codes[side])) for side in sides)
    half = t_quantile(fewest - 1) * float(np.sqrt(jackknife_variance(left_out)))
    estimate = float(fit(*every)[0])
    return Effect(estimate, estimate - half, estimate + half, len(report), n_groups)


def _verdict(fit: Effect, lead: Effect, toward: bool) -> tuple[str, str]:
    """The verdict, and why it is an open one.

    Args:
        fit: of the self-report.
        lead: of the self-report minus what is said of another, item by item.
        toward: whether the mean self-report of either side is on the side of the changed behavior.
    """
    if fit.high < 0:
        return FITS_OLD, ""
    if not fit.low > 0:
        return UNDECIDED, "the interval of the self-report's fit holds 0"
    if not toward:
        return UNDECIDED, "the self-report fits the flips to one side alone"
    if not lead.low > 0:
        return (
            UNDECIDED,
            "the self-report does not fit decidedly better than what is said of another",
        )
    return FITS_NEW, ""


def shift_test(
    subject: Subject,
    directions: Directions,
    sweep: Sweep,
    readouts: Readouts,
    n_items: int,
    dose: float,
    store: Store,
    advance: Advance,
) -> dict[str, Any]:
    """`shift` of `causal.json`: for each way to change the behavior, both sides together."""
    work = _Work(subject, directions, sweep, readouts, range(min(n_items, len(sweep.chosen))))
    found: dict[str, Any] = {"dose": dose}
    for change in CHANGES:
        outcomes, reports = [], []
        for side, sign in SIDES:
            part = f"{change} {side}"
            if change == SYSTEM:
                told = store.get(part, partial(work.told, sign))
            else:
                told = store.get(part, partial(work.steered, FITTED.index(change), sign * dose))
            outcomes.append(told["outcomes"])
            reports.append(told["reports"])
            advance(1)
        found[change] = work.shifted(outcomes, reports).to_json()
    found["system_messages"] = [system_message(subject, sign) for _, sign in SIDES]
    return found


@dataclass(frozen=True)
class _Work:
    """The items that are shifted: the first of those that were measured."""

    subject: Subject
    directions: Directions
    sweep: Sweep
    readouts: Readouts
    rows: range

    @property
    def items(self) -> list[Item]:
        return [self.subject.items[self.sweep.chosen[row]] for row in self.rows]

    def steered(self, number: int, dose: float) -> dict[str, Any]:
        """Outcomes under steering, each half along the direction fitted on the other; reports are the sweep's."""
        outcomes: list[int | None] = [None] * len(self.rows)
        items, place, model = self.items, self.subject.place, self.subject.model
        tails = by_tail(place, model, [item.prompt() for item in items])
        for (tail, alike), half in product(tails.items(), (0, 1)):
            rows = [r for r in alike if self.directions.half_of[self.sweep.chosen[r]] == half]
            if not rows:
                continue
            vector = torch.tensor(self.directions.vectors[half, number], dtype=torch.float32)
            coefficient = dose * self.directions.unit
            with intervene(model, [Steer(place.site, place.layer, vector, coefficient, tail)]):
                for row, outcome in zip(
                    rows, self._outcomes([items[r] for r in rows]), strict=True
                ):
                    outcomes[row] = outcome
        at = self.sweep.doses.index(dose)
        reports = {
            name: self.sweep.steered[name][list(self.rows), number, at].tolist() for name in REPORTS
        }
        return {"outcomes": outcomes, "reports": reports}

    def told(self, sign: int) -> dict[str, Any]:
        """Outcomes and reports behind a system message that asks for an outcome."""
        texts = [_filled(system_message(self.subject, sign), item) for item in self.items]
        items = [
            replace(item, messages=behind_system(item.messages, text))
            for item, text in zip(self.items, texts, strict=True)
        ]
        reports = {
            name: [
                self._log_odds(self.readouts.slots[name][row], text)
                for row, text in zip(self.rows, texts, strict=True)
            ]
            for name in REPORTS
        }
        return {"outcomes": self._outcomes(items), "reports": reports}

    def shifted(
        self, outcomes: Sequence[Sequence[int | None]], reports: Sequence[Mapping[str, Any]]
    ) -> Shifted:
        """Both sides of a change together."""
        chosen = list(self.sweep.chosen[: len(self.rows)])
        orders = order_of(len(self.sweep.chosen))
        centered = {}
        for name in REPORTS:
            base = self.sweep.base[name]
            medians = np.array([np.median(base[orders == order]) for order in (0, 1)])
            centered[name] = np.concatenate(
                [np.asarray(one[name]) - medians[orders[: len(self.rows)]] for one in reports]
            )
        return Shifted(
            np.tile(self.subject.outcome[chosen].astype(float), len(outcomes)),
            np.array([np.nan if o is None else o for side in outcomes for o in side], dtype=float),
            centered,
            np.tile(self.subject.groups[chosen], len(outcomes)),
        )

    def _outcomes(self, items: Sequence[Item]) -> list[int | None]:
        """What the model does with items, judged by the task."""
        subject = self.subject
        runner = LocalRunner(
            subject.model,
            samples=samples_of(subject.task, subject.config),
            seed=subject.config.seed,
        )
        return [row.outcome for row in label_behavior(runner, subject.task, items)]

    def _log_odds(self, slot: Slot, system: str) -> float:
        model = self.subject.model
        assert slot.prompt.messages is not None
        prompt = replace(slot.prompt, messages=behind_system(slot.prompt.messages, system))
        halfway = read_halfway(model, prompt, self.subject.place.block, "prompt_last")
        return float(slot.log_odds(go_on(model, halfway, halfway.states[None]))[0])


def system_message(subject: Subject, sign: int) -> str:
    """What asks for an outcome; fields of the item stand in it in braces."""
    event = subject.task.event
    sentence = re.sub(r"<(\w+)>", r"\1", event.yes if sign > 0 else event.no)
    return f"Whatever comes, act so that this is true: {sentence}"


def _filled(text: str, item: Item) -> str:
    for name, value in item.fields.items():
        text = text.replace("{" + name + "}", value)
    return text

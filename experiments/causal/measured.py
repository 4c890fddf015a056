"""What the sweep amounts to: steering and ablation, effect by effect."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from experiments.causal.directions import FITTED, RANDOM, SHUFFLED, Directions
from experiments.causal.effects import Effect, Moved, against_nulls, class_gap, effect_of, moved
from experiments.causal.guards import Guards
from experiments.causal.readouts import order_of
from experiments.causal.sweep import ABLATIONS, RELATIVE_DOSES, Sweep
from experiments.records import json_number

TEST = len(RELATIVE_DOSES) - 1
"""The dose that effects, p-values and verdicts are about."""


class Movements:
    """The movements of a sweep: log-odds after a change minus log-odds before, in nats."""

    def __init__(
        self, sweep: Sweep, directions: Directions, outcome: np.ndarray, groups: np.ndarray
    ):
        """`outcome` and `groups` are those of the measured items, in the sweep's order."""
        self.sweep = sweep
        self.directions = directions
        self.outcome = outcome
        self.groups = groups

    @property
    def readouts(self) -> list[str]:
        """What was measured."""
        return list(self.sweep.base)

    @property
    def half(self) -> Int[np.ndarray, " item"]:
        """The half of every measured item."""
        own: np.ndarray = self.directions.half_of[list(self.sweep.chosen)]
        return own

    def steered(self, readout: str) -> Float[np.ndarray, "item direction dose"]:
        """Movements by steering."""
        moved_by: np.ndarray = self.sweep.steered[readout] - self.sweep.base[readout][:, None, None]
        return moved_by

    def ablated(self, readout: str) -> Float[np.ndarray, "item direction ablation"]:
        """Movements by ablation."""
        moved_by: np.ndarray = self.sweep.ablated[readout] - self.sweep.base[readout][:, None, None]
        return moved_by

    def spread(self, readout: str) -> float:
        """Standard deviation of the unchanged log-odds over items: what a movement is small or large against.

        Of a question that is asked in two orders of its options, within orders: a model that prefers a place would
        seem to tell items apart that it does not, and no movement would be large.
        """
        values = self.sweep.base[readout].copy()
        if readout != "behavior":
            order = order_of(len(values))
            for own in (order == one for one in np.unique(order)):
                values[own] -= values[own].mean()
        return float(values.std())

    def at_test_dose(self, readout: str, direction: int) -> Float[np.ndarray, " item"]:
        """The movement of every item at the test dose."""
        values: np.ndarray = self.steered(readout)[:, direction, TEST]
        return values

    def effect(self, readout: str, direction: int) -> Effect:
        """The mean movement at the test dose, with its interval and its p-values."""
        steered = self.steered(readout)[..., TEST]
        nulls = steered[: self.sweep.n_null_items]
        return against_nulls(
            effect_of(steered[:, direction], self.groups),
            float(nulls[:, direction].mean()),
            nulls[:, self.directions.of_kind(RANDOM[FITTED[direction]])].mean(axis=0),
            nulls[:, self.directions.of_kind(SHUFFLED[FITTED[direction]])].mean(axis=0),
        )

    def gap(self, readout: str) -> Effect:
        """Unchanged log-odds of the items of outcome 1 minus those of the others."""
        return class_gap(self.sweep.base[readout], self.outcome, self.groups)

    @property
    def reads_behavior(self) -> bool:
        """Whether the behavior's log-odds tell its outcomes apart, nothing being changed; if not, they may be of
        anything, and a movement of theirs is none of the behavior."""
        return "behavior" in self.readouts and self.gap("behavior").low > 0

    def moved(self, readout: str, effect: Effect) -> Moved:
        """`effects.moved` of an effect on a readout; undecided of a behavior that is not read."""
        if readout == "behavior" and not self.reads_behavior:
            return "undecided"
        return moved(effect, self.spread(readout))

    def steering_json(self, guards: Guards) -> dict[str, Any]:
        """`steering` of `causal.json`: per readout the probe's dose-response, its nulls, and the diff-of-means'."""
        found: dict[str, Any] = {
            "unit": {
                "length": json_number(self.directions.unit),
                "what": "root mean square distance of the items' states at the place from their mean",
            },
            "test_dose": guards.test_dose,
        }
        random, shuffled = self.directions.shown(FITTED[0])
        for readout in self.readouts:
            rows = {name: self._curve(readout, row, guards) for row, name in enumerate(FITTED)}
            found[readout] = rows["probe"] | {
                "diff_means": rows["diff_means"],
                "baseline": {
                    "mean": json_number(self.sweep.base[readout].mean()),
                    "spread": json_number(self.spread(readout)),
                },
                "random": self._null_curves(readout, random),
                "shuffled": self._null_curves(readout, shuffled),
            }
        return found

    def _curve(self, readout: str, direction: int, guards: Guards) -> dict[str, Any]:
        effect = self.effect(readout, direction)
        at_doses = [
            effect_of(values, self.groups) for values in self.steered(readout)[:, direction].T
        ]
        means = [json_number(one.estimate) for one in at_doses]
        bounds = [[json_number(one.low), json_number(one.high)] for one in at_doses]
        return {
            "doses": [*self.sweep.doses[:2], 0.0, *self.sweep.doses[2:]],
            "direction": [*means[:2], 0.0, *means[2:]],
            "direction_ci": [*bounds[:2], [0.0, 0.0], *bounds[2:]],
            "within": [guards.within(dose) or dose == 0 for dose in _with_zero(self.sweep.doses)],
            "moved": self.moved(readout, effect),
            **effect.to_json(),
        }

    def _null_curves(self, readout: str, rows: list[int]) -> list[list[float | None]]:
        """A direction a row, a dose a column, in the order of `doses`."""
        means = self.steered(readout)[: self.sweep.n_null_items, rows].mean(axis=0)
        return [[*map(json_number, row[:2]), 0.0, *map(json_number, row[2:])] for row in means]

    def ablation_json(self, zero_warning: str) -> dict[str, Any]:
        """`ablation` of `causal.json`.

        `mean_shift` is the mean movement; `gap_change` is by how much the items of outcome 1 moved more than the
        others, under 0 where the component carries the outcome to the readout.
        """
        found: dict[str, Any] = {"zero_warning": zero_warning}
        for readout in self.readouts:
            ablated = self.ablated(readout)
            found[readout] = {"gap_before": self.gap(readout).to_json()}
            for kind, name in enumerate(ABLATIONS):
                found[readout][name] = {
                    fitted: self._ablation(ablated, row, kind) for row, fitted in enumerate(FITTED)
                }
        return found

    def _ablation(
        self, ablated: Float[np.ndarray, "item direction ablation"], direction: int, kind: int
    ) -> dict[str, Any]:
        values = ablated[:, direction, kind]
        rows = {
            "mean_shift": effect_of(values, self.groups),
            "gap_change": class_gap(values, self.outcome, self.groups),
        }
        if kind == 0:
            n = self.sweep.n_null_items
            statistics = {
                "mean_shift": ablated[:n, :, 0].mean(axis=0),
                "gap_change": _gap(ablated[:n, :, 0], self.outcome[:n]),
            }
            random, shuffled = self.directions.shown(FITTED[direction])
            rows = {
                name: against_nulls(
                    effect,
                    float(statistics[name][direction]),
                    statistics[name][random],
                    statistics[name][shuffled],
                )
                for name, effect in rows.items()
            }
        return {name: effect.to_json() for name, effect in rows.items()}


def _with_zero(doses: tuple[float, ...]) -> list[float]:
    return [*doses[:2], 0.0, *doses[2:]]


def _gap(
    values: Float[np.ndarray, "item direction"], outcome: np.ndarray
) -> Float[np.ndarray, " direction"]:
    gap: np.ndarray = values[outcome == 1].mean(axis=0) - values[outcome == 0].mean(axis=0)
    return gap

"""One control, one row: scored on the pairs of the probe that it stands beside, or with the reason why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int

from experiments.records import json_number
from experiments.result_json import gap_json, interval_json
from experiments.scored import Scored
from probes import (
    Estimand,
    Interval,
    same_fold_auroc,
    skip_reason,
)

Kind = Literal["control", "output", "peer", "context"]


@dataclass(frozen=True)
class ControlRow:
    """A row of the results: an AUROC with its interval and estimand, or a reason."""

    name: str
    kind: Kind
    rules_out: str
    """The cheaper explanation that this row stands for, in a few words."""
    n_items: int
    n_groups: int
    interval: Interval | None = None
    estimand: Estimand | None = None
    reason: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As `results.json` holds it; `auroc` is None where there is a `reason`."""
        shared = {"kind": self.kind, "rules_out": self.rules_out}
        if self.interval is None or self.estimand is None:
            return shared | {"auroc": None, "ci": None, "reason": self.reason}
        return shared | interval_json(self.interval, self.estimand) | dict(self.about)

    def to_table(self) -> dict[str, Any]:
        """As `results.csv` holds it."""
        interval = self.interval
        where = {key: self.about.get(key) for key in ("site", "layer", "position")}
        numbers = (
            {}
            if interval is None
            else {
                "auroc": json_number(interval.estimate),
                "ci_low": json_number(interval.low),
                "ci_high": json_number(interval.high),
                "estimand": self.estimand,
            }
        )
        counts = {"n_items": self.n_items, "n_groups": self.n_groups}
        return {"kind": self.kind, "predictor": self.name} | where | numbers | counts


@dataclass(frozen=True)
class Scoring:
    """The items and pairs that all rows of a table are scored on, and the probe that they stand beside."""

    outcome: Int[np.ndarray, " item"]
    groups: np.ndarray
    folds: Int[np.ndarray, "regrouping item"]
    probe: Scored

    def row(
        self, name: str, kind: Kind, scored: Scored, rules_out: str, **about: Any
    ) -> ControlRow:
        """Score one predictor; `probe_minus` is the paired difference of the probe and it."""
        reason = self.reason
        empty = self.without(name, kind, rules_out, reason or "")
        if reason is not None:
            return empty
        interval = scored.interval(self.outcome, self.folds, self.groups)
        if scored is not self.probe:
            about["probe_minus"] = gap_json(self.difference(self.probe, scored))
        return replace(empty, interval=interval, estimand=scored.estimand, reason=None, about=about)

    def without(self, name: str, kind: Kind, rules_out: str, reason: str) -> ControlRow:
        """A row that cannot be scored."""
        counts = len(self.outcome), len(set(self.groups))
        return ControlRow(name, kind, rules_out, *counts, reason=reason)

    def difference(self, first: Scored, second: Scored) -> Interval:
        """AUROC of the first minus that of the second, paired."""
        return first.minus(second, self.outcome, self.folds, self.groups)

    @property
    def reason(self) -> str | None:
        """Why nothing can be scored on these pairs, or None."""
        reason = skip_reason(self.outcome, self.groups, n_folds=2)
        if reason is not None:
            return reason
        constant = np.zeros(len(self.outcome))
        aurocs = [same_fold_auroc(self.outcome, constant, fold) for fold in self.folds]
        return "no fold holds a pair to compare" if np.isnan(aurocs).any() else None

    def within(self, bins: Int[np.ndarray, "regrouping item"]) -> Scoring:
        """The pairs within bins of the folds."""
        return replace(self, folds=bins, probe=self.probe.without_training())

    def among(
        self, members: Bool[np.ndarray, " item"], *scored: Scored
    ) -> tuple[Scoring, list[Scored]]:
        """The same on some of the items alone, and predictors on these; what was trained stays as it is."""
        kept = [one.among(members) for one in (self.probe, *scored)]
        part = Scoring(self.outcome[members], self.groups[members], self.folds[:, members], kept[0])
        return part, kept[1:]

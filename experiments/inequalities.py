"""The inequalities of the diagnosis: each is three-valued, from a paired interval and a margin fixed beforehand.

It holds, it fails, or the interval cannot decide; a straddling interval is never a "no".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from experiments.records import json_number
from experiments.scored import Scored
from probes import (
    Interval,
    criterion_interval,
    grouped_folds,
    rate_interval,
    stacked_gain,
)

Verdict = Literal[
    "beats", "does not beat", "as good as", "falls short", "under", "over", "undecided"
]

Scores = Float[np.ndarray, "*regroupings item"]


@dataclass(frozen=True)
class Rules:
    """Margins of the diagnosis, fixed before the data are seen."""

    delta: float = 0.08
    """AUROC difference that counts."""
    parse_rate: float = 0.8
    """A parse rate under this is unreadable."""
    criterion: float = 0.5
    """A criterion further from 0 than this is a bias."""
    criterion_clear_of: float = 0.25
    """The interval of a biased criterion must exclude everything nearer to 0 than this."""


DEFAULT_RULES = Rules()


@dataclass(frozen=True)
class Evidence:
    """One inequality: its estimate, 95% interval and verdict, and the groups that would decide it."""

    name: str
    question: str
    estimate: float
    low: float
    high: float
    margin: float
    verdict: Verdict
    groups_needed: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The row in `results.json`, six decimals."""
        return {
            "name": self.name,
            "question": self.question,
            "estimate": json_number(self.estimate),
            "ci": [json_number(self.low), json_number(self.high)],
            "margin": self.margin,
            "verdict": self.verdict,
            "groups_needed": self.groups_needed,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Evidence:
        """The inverse of `to_json`."""
        low, high = row["ci"]
        estimate, low, high = (
            math.nan if value is None else value for value in (row["estimate"], low, high)
        )
        return cls(
            row["name"],
            row["question"],
            estimate,
            low,
            high,
            row["margin"],
            row["verdict"],
            row["groups_needed"],
        )


@dataclass(frozen=True)
class TrainingScores:
    """Of every probe and the text, `[regrouping, fold, item]`: for every outer fold, scores of the other folds' items
    by models that saw neither the item's fold nor the outer one (`probes.NestedResult.training_scores`).

    Stacks are fitted on them, and what training sets add to an interval is read off them.
    """

    task: np.ndarray | None
    text: np.ndarray | None
    report: np.ndarray | None
    transferred: np.ndarray | None


@dataclass(frozen=True)
class Comparisons:
    """What all inequalities share: the labels, the groups, the folds and the margin."""

    outcome: np.ndarray
    groups: np.ndarray
    folds: np.ndarray | None
    delta: float
    seed: int

    def __post_init__(self) -> None:
        if self.groups.shape != self.outcome.shape:
            raise ValueError(
                f"groups: shape {self.groups.shape}, but outcome has {self.outcome.shape}; align them"
            )

    def checked(self, name: str, scores: np.ndarray) -> np.ndarray:
        """Scores as `[regrouping, item]`; ValueError for another number of items, NaN or infinity."""
        scores = np.atleast_2d(np.asarray(scores, dtype=float))
        if scores.shape[-1] != self.outcome.size:
            raise ValueError(
                f"{name}: {scores.shape[-1]} items, but outcome has {self.outcome.size}; align them"
            )
        if not np.isfinite(scores).all():
            raise ValueError(f"{name}: holds NaN or infinity; leave unscored items out beforehand")
        return scores

    @property
    def scored_by(self) -> np.ndarray:
        """Which model scored an item, `[regrouping, item]`."""
        if self.folds is None:
            return np.zeros((1, self.outcome.size), dtype=int)
        return np.atleast_2d(self.folds)

    @property
    def stacked_on(self) -> np.ndarray:
        """The folds on which text and probe are stacked, `[regrouping, item]`."""
        if self.folds is None:
            return np.atleast_2d(grouped_folds(self.outcome, self.groups, seed=self.seed))
        return np.atleast_2d(self.folds)

    def difference(self, a: Scored, b: Scored) -> Interval:
        """AUROC of `a` minus that of `b`, on the same pairs; of models that are given, where there are no folds."""
        if self.folds is None:
            a, b = Scored.fixed(a.scores), Scored.fixed(b.scores)
        return a.minus(b, self.outcome, self.scored_by, self.groups)

    def beats_text(self, name: str, probe: Scored, text: Scored) -> Evidence:
        """Whether the probe adds to the text: the stacked difference, never the raw one."""
        gain = stacked_gain(
            self.outcome,
            text.scores,
            probe.scores,
            self.stacked_on,
            self.groups,
            training_scores=text.training_beside(probe),
        )
        question = "AUROC of text and probe stacked, minus the text alone"
        return three_valued(name, question, gain, self.delta, beats_question=True)

    def as_good(self, name: str, a: Scored, b: Scored) -> Evidence:
        """Whether `a` is as good as the trained `b`."""
        question = "difference in AUROC on the same pairs"
        return three_valued(name, question, self.difference(a, b), self.delta, beats_question=False)


def three_valued(
    name: str, question: str, gap: Interval, delta: float, *, beats_question: bool
) -> Evidence:
    """The verdict on a difference (METHODS section 7) and the groups that would decide an open one."""
    verdict: Verdict = "undecided"
    if beats_question:
        if gap.high < delta:
            verdict = "does not beat"
        elif gap.low > 0:
            verdict = "beats"
    elif gap.low > -delta:
        verdict = "as good as"
    elif gap.high < 0:
        verdict = "falls short"
    needed = None
    if verdict == "undecided":
        needed = groups_needed(gap, delta, beats_question=beats_question)
    return Evidence(name, question, gap.estimate, gap.low, gap.high, delta, verdict, needed)


def groups_needed(gap: Interval, delta: float, *, beats_question: bool) -> int | None:
    """Groups at which the interval, shrinking as one over the root of their number, would decide."""
    if beats_question:
        target = max(gap.estimate, delta - gap.estimate)
    else:
        target = max(gap.estimate + delta, -gap.estimate)
    return _groups_for(gap, target)


def _groups_for(interval: Interval, target: float) -> int | None:
    """Groups at which the half-width is no more than `target`; None where none would do."""
    half_width = (interval.high - interval.low) / 2
    if target <= 0 or not math.isfinite(half_width):
        return None
    return math.ceil(interval.n_groups * (half_width / target) ** 2)


def parse_evidence(parsed: np.ndarray, groups: np.ndarray, rules: Rules) -> Evidence:
    """Whether enough of the generated answers can be parsed; `parsed` `[item]` is NaN where not."""
    rate = rate_interval(~np.isnan(parsed), groups)
    verdict: Verdict = "undecided"
    if rate.high < rules.parse_rate:
        verdict = "under"
    elif rate.low > rules.parse_rate:
        verdict = "over"
    needed = None
    if verdict == "undecided":
        needed = _groups_for(rate, abs(rate.estimate - rules.parse_rate))
    return Evidence(
        "answers can be parsed",
        "parse rate of the generated answers",
        rate.estimate,
        rate.low,
        rate.high,
        rules.parse_rate,
        verdict,
        needed,
    )


def bias_evidence(
    outcome: np.ndarray, parsed: np.ndarray, groups: np.ndarray, rules: Rules
) -> Evidence:
    """Whether the parsed answers lean to one side more than the rules allow."""
    scored = ~np.isnan(parsed)
    name, question = "answers are not biased", "criterion c of the parsed answers"
    if len(set(groups[scored])) < 2:
        return Evidence(name, question, np.nan, np.nan, np.nan, rules.criterion, "undecided")
    c = criterion_interval(outcome[scored], parsed[scored].astype(int), groups[scored])
    clear_of_zero = c.low > rules.criterion_clear_of or c.high < -rules.criterion_clear_of
    verdict: Verdict = "undecided"
    if abs(c.estimate) > rules.criterion and clear_of_zero:
        verdict = "over"
    elif c.low > -rules.criterion and c.high < rules.criterion:
        verdict = "under"
    needed = None
    if verdict == "undecided" and abs(c.estimate) > rules.criterion:
        needed = _groups_for(c, abs(c.estimate) - rules.criterion_clear_of)
    elif verdict == "undecided":
        needed = _groups_for(c, rules.criterion - abs(c.estimate))
    return Evidence(name, question, c.estimate, c.low, c.high, rules.criterion, verdict, needed)


def checked_outcome(outcome: np.ndarray) -> np.ndarray:
    """The outcomes as integers; ValueError for any but 0 and 1."""
    outcome = np.asarray(outcome)
    if outcome.ndim != 1 or not np.isin(outcome, (0, 1)).all():
        raise ValueError("outcome: must be one row of 0 and 1; leave unscored items out beforehand")
    return outcome.astype(int)

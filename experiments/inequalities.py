"""The inequalities of the diagnosis: each is three-valued, from a paired interval and a margin fixed beforehand.

It holds, it fails, or the interval cannot decide; a straddling interval is never a "no".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from experiments.records import json_number
from experiments.scored import Scored
from probes import (
    Interval,
    grouped_folds,
    same_fold_auroc,
    stacked_gain,
)

Verdict = Literal[
    "beats",
    "does not beat",
    "as good as",
    "falls short",
    "lost",
    "partly lost",
    "under",
    "over",
    "undecided",
]

Scores = Float[np.ndarray, "*regroupings item"]

DIFFERENCE = "difference in AUROC on the same pairs"


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
        return three_valued(
            name, DIFFERENCE, self.difference(a, b), self.delta, beats_question=False
        )

    def carried(
        self,
        name: str,
        slot: Scored,
        task: Scored,
        *,
        is_there: bool,
        is_kept: bool,
        is_lost: bool,
    ) -> Evidence:
        """Whether the better probe at the answer slot has what the task probe has.

        Lost where something was there and decidedly no probe at the slot beats the text; or where the better one falls
        short by more than the margin, and by half of it at least: partly, where one of them does beat the text. Short
        by less leaves it open.

        Args:
            name: of the inequality.
            slot: the better probe at the answer slot.
            task: the task probe.
            is_there: the task probe beats the text.
            is_kept: a probe at the slot does.
            is_lost: decidedly none does.
        """
        gap = self.difference(slot, task)
        row = three_valued(name, DIFFERENCE, gap, self.delta, beats_question=False)
        if row.verdict == "as good as" and not (is_there and is_lost):
            return row
        falls_short = gap.high < -self.delta / 2 and gap.estimate < -self.delta
        if (is_there and is_lost) or falls_short:
            return replace(row, verdict="partly lost" if is_kept else "lost", groups_needed=None)
        counts = gap.estimate < -self.delta
        target = -gap.estimate - self.delta / 2 if counts else gap.estimate + self.delta
        return replace(row, verdict="undecided", groups_needed=groups_for(gap, target))

    def auroc(self, scored: Scored) -> float:
        """Same-fold AUROC, mean over regroupings."""
        rows, folds = np.broadcast_arrays(np.atleast_2d(scored.scores), self.scored_by)
        return float(
            np.mean([same_fold_auroc(self.outcome, *one) for one in zip(rows, folds, strict=True)])
        )


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
    return groups_for(gap, target)


def groups_for(interval: Interval, target: float) -> int | None:
    """Groups at which the half-width is no more than `target`; None where none would do."""
    half_width = (interval.high - interval.low) / 2
    if target <= 0 or not math.isfinite(half_width):
        return None
    return math.ceil(interval.n_groups * (half_width / target) ** 2)


def checked_outcome(outcome: np.ndarray) -> np.ndarray:
    """The outcomes as integers; ValueError for any but 0 and 1."""
    outcome = np.asarray(outcome)
    if outcome.ndim != 1 or not np.isin(outcome, (0, 1)).all():
        raise ValueError("outcome: must be one row of 0 and 1; leave unscored items out beforehand")
    return outcome.astype(int)

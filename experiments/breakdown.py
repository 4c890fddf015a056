"""Where introspection breaks down: the first stage of the path from prompt to words at which the outcome is lost.

`diagnose` is a pure function on out-of-fold scores, so that anyone can check it. Every inequality is three-valued: it
holds, it fails, or the interval cannot decide; a straddling interval is never a "no". The margin is fixed beforehand.
What a stage does *not* show: that the model uses the information (that takes interventions), or that it is about the
model rather than the input (that takes another reader of the same text).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from experiments.records import json_number
from probes import (
    Interval,
    auroc_difference,
    criterion_interval,
    grouped_folds,
    rate_interval,
    stacked_gain,
)

STAGES = (
    "not_beyond_text",
    "not_transported",
    "not_read_out",
    "unparsed",
    "miscalibrated",
    "faithful",
    "undetermined",
)

Verdict = Literal[
    "beats", "does not beat", "as good as", "falls short", "under", "over", "undecided"
]

Estimand = Literal["fixed", "procedure"]
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


@dataclass(frozen=True)
class Breakdown:
    """The stage, in one sentence and with every inequality.

    `groups_needed` is how many groups in all would decide the inequality that left the stage undetermined, if its
    estimate stayed; None where the stage is determined or no number of groups would.
    """

    stage: str
    sentence: str
    evidence: tuple[Evidence, ...]
    groups_needed: int | None

    def to_frame(self) -> pd.DataFrame:
        """A row an inequality."""
        return pd.DataFrame([asdict(row) for row in self.evidence])

    def to_json(self) -> dict[str, Any]:
        """The `breakdown` of `results.json`."""
        rows = [
            {
                "name": row.name,
                "question": row.question,
                "estimate": json_number(row.estimate),
                "ci": [json_number(row.low), json_number(row.high)],
                "margin": row.margin,
                "verdict": row.verdict,
                "groups_needed": row.groups_needed,
            }
            for row in self.evidence
        ]
        return {
            "stage": self.stage,
            "sentence": self.sentence,
            "evidence": rows,
            "groups_needed": self.groups_needed,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Breakdown:
        """The inverse of `to_json`, which keeps six decimals."""

        def number(value: float | None) -> float:
            return math.nan if value is None else value

        evidence = tuple(
            Evidence(
                one["name"],
                one["question"],
                number(one["estimate"]),
                number(one["ci"][0]),
                number(one["ci"][1]),
                one["margin"],
                one["verdict"],
                one["groups_needed"],
            )
            for one in row["evidence"]
        )
        return cls(row["stage"], row["sentence"], evidence, row["groups_needed"])


def diagnose(
    outcome: Int[np.ndarray, " item"],
    groups: Sequence[str] | np.ndarray,
    task_scores: Scores,
    text_scores: Scores,
    report_scores: Scores,
    transferred_scores: Scores,
    readout_margin: Scores,
    parsed_answer: Float[np.ndarray, " item"],
    *,
    folds: Int[np.ndarray, "*regroupings item"] | None = None,
    rules: Rules = Rules(),
    seed: int = 0,
) -> Breakdown:
    """Name the stage at which the outcome is lost on its way to the words.

    Args:
        outcome: what the model did, 0 or 1.
        groups: whole groups are exchangeable; intervals are clustered on them.
        task_scores: out-of-fold scores of the probe at prediction time in the task context.
        text_scores: of the text baseline.
        report_scores: of a probe trained at the answer slot of the self-prediction prompt.
        transferred_scores: of the task probe applied at the answer slot. (A mean shift between the contexts moves
            all scores of a fold alike, so raw and shifted are one thing under same-fold AUROC.)
        readout_margin: verbal log-odds of the option that predicts outcome 1.
        parsed_answer: the outcome predicted in words, 1 or 0, NaN where the answer could not be parsed.
        folds: which model scored an item, one row a regrouping as the scores; None means one model scored all.
        rules: the margins.
        seed: of the folds on which text and probe are stacked where `folds` is None.

    Raises:
        ValueError: arrays of different lengths, an outcome other than 0 or 1, or scores that are not finite.
    """
    path = _Path(
        outcome=_checked_outcome(outcome),
        groups=np.asarray(groups),
        folds=folds,
        delta=rules.delta,
        seed=seed,
    )
    task, text, report, transferred, words = (
        path.checked(name, scores)
        for name, scores in (
            ("task_scores", task_scores),
            ("text_scores", text_scores),
            ("report_scores", report_scores),
            ("transferred_scores", transferred_scores),
            ("readout_margin", readout_margin),
        )
    )
    parsed = np.asarray(parsed_answer, dtype=float)
    if parsed.shape != path.outcome.shape:
        raise ValueError(
            f"parsed_answer: shape {parsed.shape}, but outcome has {path.outcome.shape}; align them"
        )

    decodable = path.beats_text("task probe beats the text", task, text)
    trained = path.beats_text("answer-slot probe beats the text", report, text)
    moved = path.beats_text("task probe moved to the answer slot beats the text", transferred, text)
    best_name, best = _better(path, report, transferred, text, trained, moved)
    carried = path.as_good(f"{best_name} is as good as the task probe", best, task)
    said = path.as_good(f"words are as good as the {best_name}", words, best)
    kept = path.as_good("words are as good as the task probe", words, task)
    readable = _readable(parsed, path.groups, rules)
    unbiased = _unbiased(path.outcome, parsed, path.groups, rules)
    found = _Found(decodable, trained, moved, carried, said, readable, unbiased, kept)

    stage, open_question = _stage(found, rules.delta)
    return Breakdown(
        stage=stage,
        sentence=_sentence(stage, found, open_question),
        evidence=tuple(found),
        groups_needed=open_question.groups_needed if open_question else None,
    )


class _Found(NamedTuple):
    """The inequalities in the order of the path, prompt to words."""

    decodable: Evidence
    trained: Evidence
    moved: Evidence
    carried: Evidence
    said: Evidence
    readable: Evidence
    unbiased: Evidence
    kept: Evidence


def _stage(found: _Found, delta: float) -> tuple[str, Evidence | None]:
    """The first stage that holds; the inequality that stood open, where one did."""
    if found.decodable.verdict != "beats":
        return _settled(found.decodable, {"does not beat": "not_beyond_text"})
    if not _reaches_slot(found):
        first_open = found.trained if found.trained.verdict == "undecided" else found.moved
        return _settled(first_open, {"does not beat": "not_transported"})
    if found.carried.high < -delta / 2 and found.carried.estimate < -delta:
        return "not_transported", None
    if found.said.verdict != "as good as":
        return _settled(found.said, {"falls short": "not_read_out"})
    if found.readable.verdict != "over":
        return _settled(found.readable, {"under": "unparsed"})
    if found.unbiased.verdict != "under":
        return _settled(found.unbiased, {"over": "miscalibrated"})
    return _settled(found.kept, {"as good as": "faithful"})


def _reaches_slot(found: _Found) -> bool:
    return "beats" in (found.trained.verdict, found.moved.verdict)


def _settled(row: Evidence, stage_of: dict[str, str]) -> tuple[str, Evidence | None]:
    stage = stage_of.get(row.verdict, "undetermined")
    return stage, (row if stage == "undetermined" else None)


def _better(
    path: _Path,
    report: np.ndarray,
    transferred: np.ndarray,
    text: np.ndarray,
    trained: Evidence,
    moved: Evidence,
) -> tuple[str, np.ndarray]:
    """The probe at the answer slot that carries more; one that beats the text goes before one that does not."""
    if (trained.verdict == "beats") != (moved.verdict == "beats"):
        wins = trained.verdict == "beats"
    else:
        wins = path.difference(report, transferred).estimate >= 0
    return ("answer-slot probe", report) if wins else ("moved task probe", transferred)


@dataclass(frozen=True)
class _Path:
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
        if self.folds is None:
            return np.zeros((1, self.outcome.size), dtype=int)
        return np.atleast_2d(self.folds)

    @property
    def stacked_on(self) -> np.ndarray:
        if self.folds is None:
            return np.atleast_2d(grouped_folds(self.outcome, self.groups, seed=self.seed))
        return np.atleast_2d(self.folds)

    def difference(self, a: np.ndarray, b: np.ndarray) -> Interval:
        estimand: Estimand = "fixed" if self.folds is None else "procedure"
        return auroc_difference(self.outcome, a, b, self.scored_by, self.groups, estimand=estimand)

    def beats_text(self, name: str, probe: np.ndarray, text: np.ndarray) -> Evidence:
        gain = stacked_gain(self.outcome, text, probe, self.stacked_on, self.groups)
        question = "AUROC of text and probe stacked, minus the text alone"
        return _three_valued(name, question, gain, self.delta, beats_question=True)

    def as_good(self, name: str, a: np.ndarray, b: np.ndarray) -> Evidence:
        question = "difference in AUROC on the same pairs"
        return _three_valued(
            name, question, self.difference(a, b), self.delta, beats_question=False
        )


def _three_valued(
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
        needed = _groups_needed(gap, delta, beats_question=beats_question)
    return Evidence(name, question, gap.estimate, gap.low, gap.high, delta, verdict, needed)


def _groups_needed(gap: Interval, delta: float, *, beats_question: bool) -> int | None:
    """Groups at which the interval, shrinking as one over the root of their number, would decide."""
    if beats_question:
        target = max(gap.estimate, delta - gap.estimate)
    else:
        target = max(gap.estimate + delta, -gap.estimate)
    half_width = (gap.high - gap.low) / 2
    if target <= 0 or not math.isfinite(half_width):
        return None
    return math.ceil(gap.n_groups * (half_width / target) ** 2)


def _readable(parsed: np.ndarray, groups: np.ndarray, rules: Rules) -> Evidence:
    rate = rate_interval(~np.isnan(parsed), groups)
    verdict: Verdict = "undecided"
    if rate.high < rules.parse_rate:
        verdict = "under"
    elif rate.low > rules.parse_rate:
        verdict = "over"
    return Evidence(
        "answers can be parsed",
        "parse rate of the generated answers",
        rate.estimate,
        rate.low,
        rate.high,
        rules.parse_rate,
        verdict,
    )


def _unbiased(
    outcome: np.ndarray, parsed: np.ndarray, groups: np.ndarray, rules: Rules
) -> Evidence:
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
    return Evidence(name, question, c.estimate, c.low, c.high, rules.criterion, verdict)


def _checked_outcome(outcome: np.ndarray) -> np.ndarray:
    outcome = np.asarray(outcome)
    if outcome.ndim != 1 or not np.isin(outcome, (0, 1)).all():
        raise ValueError("outcome: must be one row of 0 and 1; leave unscored items out beforehand")
    return outcome.astype(int)


def _sentence(stage: str, found: _Found, open_question: Evidence | None) -> str:
    if open_question is not None:
        needed = open_question.groups_needed
        more = f"; about {needed} groups would decide it" if needed else ""
        return (
            f"The intervals cannot decide where the outcome is lost: "
            f"{open_question.name}? {_shown(open_question)}{more}."
        )
    if stage == "not_transported" and _reaches_slot(found):
        return (
            "The outcome is foretold at prediction time beyond the text, and partly lost on the way to "
            f"the answer slot of the self-prediction ({_shown(found.carried)} against the task probe)."
        )
    best_at_slot = max(found.trained, found.moved, key=lambda row: row.estimate)
    return {
        "not_beyond_text": (
            "The activations say nothing about the outcome that the text does not say "
            f"(stacked gain {_shown(found.decodable)})."
        ),
        "not_transported": (
            "The outcome is foretold at prediction time beyond the text, but not carried to the answer "
            f"slot of the self-prediction (stacked gain there {_shown(best_at_slot)})."
        ),
        "not_read_out": (
            "The outcome is still there at the answer slot, but the words do not read it out "
            f"(words minus probe {_shown(found.said)})."
        ),
        "unparsed": (
            "The log-odds carry the outcome, but the generated answers cannot be parsed "
            f"(parse rate {_shown(found.readable)})."
        ),
        "miscalibrated": (
            "The log-odds carry the outcome, but the answers lean to one side "
            f"(criterion {_shown(found.unbiased)})."
        ),
        "faithful": (
            "The words say what the probe at prediction time knows "
            f"(words minus task probe {_shown(found.kept)})."
        ),
    }[stage]


def _shown(row: Evidence) -> str:
    return f"{row.estimate:.2f} [{row.low:.2f}, {row.high:.2f}]"

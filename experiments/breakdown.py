"""Where introspection breaks down: the first stage of the path from prompt to words at which the outcome is lost.

`diagnose` is a pure function on out-of-fold scores, so that anyone can check it. Every inequality is three-valued: it
holds, it fails, or the interval cannot decide; a straddling interval is never a "no". The margin is fixed beforehand.
What a stage does *not* show: that the model uses the information (that takes interventions), or that it is about the
model rather than the input (that takes another reader of the same text).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from experiments.inequalities import (
    DEFAULT_RULES,
    Comparisons,
    Evidence,
    Rules,
    Scores,
    TrainingScores,
    bias_evidence,
    checked_outcome,
    parse_evidence,
)
from experiments.scored import Scored

STAGES = (
    "not_beyond_text",
    "not_transported",
    "not_read_out",
    "unparsed",
    "miscalibrated",
    "faithful",
    "undetermined",
)


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
        return {
            "stage": self.stage,
            "sentence": self.sentence,
            "evidence": [row.to_json() for row in self.evidence],
            "groups_needed": self.groups_needed,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Breakdown:
        """The inverse of `to_json`, which keeps six decimals."""
        evidence = tuple(Evidence.from_json(one) for one in row["evidence"])
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
    training_scores: TrainingScores | None = None,
    rules: Rules = DEFAULT_RULES,
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
        training_scores: what text and probe are stacked on, and what training sets add to intervals. Without them a
            stack is fitted on the out-of-fold scores themselves, which makes the gain of a useless probe over a useless
            text 0.03 too high, and intervals are as wide as without any signal.
        rules: the margins.
        seed: of the folds on which text and probe are stacked where `folds` is None.

    Raises:
        ValueError: arrays of different lengths, an outcome other than 0 or 1, or scores that are not finite.
    """
    path = Comparisons(
        outcome=checked_outcome(outcome),
        groups=np.asarray(groups),
        folds=folds,
        delta=rules.delta,
        seed=seed,
    )
    task, text, report, transferred = (
        Scored(path.checked(f"{name}_scores", scores), getattr(training_scores, name, None))
        for name, scores in (
            ("task", task_scores),
            ("text", text_scores),
            ("report", report_scores),
            ("transferred", transferred_scores),
        )
    )
    margin = path.checked("readout_margin", readout_margin)
    words = Scored.fixed(margin)
    parsed = np.asarray(parsed_answer, dtype=float)
    if parsed.shape != path.outcome.shape:
        raise ValueError(
            f"parsed_answer: shape {parsed.shape}, but outcome has {path.outcome.shape}; align them"
        )

    decodable = path.beats_text("task probe beats the text", task, text)
    trained = path.beats_text("answer-slot probe beats the text", report, text)
    moved = path.beats_text("task probe moved to the answer slot beats the text", transferred, text)
    best_name, best = _better(path, report, transferred, trained, moved)
    carried = path.as_good(f"{best_name} is as good as the task probe", best, task)
    said = path.as_good(f"words are as good as the {best_name}", words, best)
    kept = path.as_good("words are as good as the task probe", words, task)
    readable = parse_evidence(parsed, path.groups, rules)
    unbiased = bias_evidence(path.outcome, parsed, path.groups, rules)
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
    if found.carried.verdict == "undecided":
        return "undetermined", found.carried
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
    path: Comparisons,
    report: Scored,
    transferred: Scored,
    trained: Evidence,
    moved: Evidence,
) -> tuple[str, Scored]:
    """The probe at the answer slot that carries more; one that beats the text goes before one that does not."""
    if (trained.verdict == "beats") != (moved.verdict == "beats"):
        wins = trained.verdict == "beats"
    else:
        wins = path.difference(report, transferred).estimate >= 0
    return ("answer-slot probe", report) if wins else ("moved task probe", transferred)


def _sentence(stage: str, found: _Found, open_question: Evidence | None) -> str:
    if open_question is not None and open_question.verdict != "undecided":
        return (
            "No stage's conditions hold: the words carry what the answer slot does, but not what the "
            f"prompt does ({open_question.name}: {open_question.verdict}, {_shown(open_question)})."
        )
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

"""Where introspection breaks down: the first stage of the path from prompt to words at which the outcome is lost.

`diagnose` is a pure function on out-of-fold scores, so that anyone can check it. Every inequality is three-valued: it
holds, it fails, or the interval cannot decide; a straddling interval is never a "no". The margin is fixed beforehand.
What a stage does *not* show: that the model uses the information (that takes interventions), or that it is about the
model rather than the input (that takes another reader of the same text).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from experiments.breakdown_sentence import Found, sentence_of
from experiments.inequalities import (
    DEFAULT_RULES,
    Comparisons,
    Evidence,
    Rules,
    Scores,
    TrainingScores,
    checked_outcome,
)
from experiments.scored import Scored
from experiments.word_evidence import bias_evidence, parse_evidence, upright_evidence

STAGES = (
    "not_beyond_text",
    "not_transported",
    "not_read_out",
    "unparsed",
    "miscalibrated",
    "faithful",
    "undetermined",
)


SlotProbe = Literal["slot", "transferred"]
SLOT_PROBES: Mapping[SlotProbe, str] = {
    "slot": "answer-slot probe",
    "transferred": "moved task probe",
}
"""The two probes at the answer slot, by the name of their scores -> as inequalities call them."""


def best_at_slot(names: Iterable[str]) -> SlotProbe | None:
    """`Breakdown.best_at_slot` from the names of its inequalities, as results of any version hold them."""
    named = set(names)
    return next((one for one, what in SLOT_PROBES.items() if _words_against(what) in named), None)


def _words_against(probe: str) -> str:
    return f"words are as good as the {probe}"


@dataclass(frozen=True)
class Breakdown:
    """The stage, in one sentence and with every inequality.

    `groups_needed` is how many groups in all would decide the inequality that left the stage undetermined, if its
    estimate stayed; None where the stage is determined or no number of groups would. `open_question` names that
    inequality, or the one on which no stage's conditions hold.
    """

    stage: str
    sentence: str
    evidence: tuple[Evidence, ...]
    groups_needed: int | None
    open_question: str | None = None

    @property
    def best_at_slot(self) -> SlotProbe | None:
        """The better probe at the answer slot, which the words were held against; None where nothing was."""
        return best_at_slot(row.name for row in self.evidence)

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
            "open_question": self.open_question,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Breakdown:
        """The inverse of `to_json`, which keeps six decimals."""
        evidence = tuple(Evidence.from_json(one) for one in row["evidence"])
        return cls(
            row["stage"],
            row["sentence"],
            evidence,
            row["groups_needed"],
            row.get("open_question"),
        )


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
    at_slot = {trained.verdict, moved.verdict}
    found = Found(
        decodable=decodable,
        trained=trained,
        moved=moved,
        carried=path.carried(
            f"{best_name} is as good as the task probe",
            best,
            task,
            is_there=decodable.verdict == "beats",
            is_kept="beats" in at_slot,
            is_lost=at_slot == {"does not beat"},
        ),
        said=path.as_good(_words_against(best_name), words, best),
        upright=upright_evidence(path, words),
        readable=parse_evidence(parsed, path.groups, rules),
        unbiased=bias_evidence(path.outcome, parsed, path.groups, rules),
        kept=path.as_good(_words_against("task probe"), words, task),
    )
    stage, open_question = _stage(found)
    return Breakdown(
        stage=stage,
        sentence=sentence_of(stage, found, open_question),
        evidence=tuple(found),
        groups_needed=open_question.groups_needed if open_question else None,
        open_question=open_question.name if open_question else None,
    )


def _stage(found: Found) -> tuple[str, Evidence | None]:
    """The first stage that holds; the inequality that stood open, where one did."""
    if found.decodable.verdict != "beats":
        return _settled(found.decodable, {"does not beat": "not_beyond_text"})
    if found.carried.verdict in ("lost", "partly lost"):
        return "not_transported", None
    if not found.reaches_slot:
        return (
            "undetermined",
            found.trained if found.trained.verdict == "undecided" else found.moved,
        )
    if found.carried.verdict == "undecided":
        return "undetermined", found.carried
    if found.said.verdict != "as good as":
        return _settled(found.said, {"falls short": "not_read_out"})
    if found.readable.verdict != "over":
        return _settled(found.readable, {"under": "unparsed"})
    if found.unbiased.verdict != "under":
        return _settled(found.unbiased, {"over": "miscalibrated"})
    return _settled(found.kept, {"as good as": "faithful"})


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
        wins = path.auroc(report) >= path.auroc(transferred)
    best: SlotProbe = "slot" if wins else "transferred"
    return SLOT_PROBES[best], report if wins else transferred

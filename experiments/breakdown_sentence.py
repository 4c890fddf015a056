"""The inequalities of a diagnosis in the order of the path, and the one sentence that they come to."""

from __future__ import annotations

from typing import NamedTuple

from experiments.inequalities import Evidence


class Found(NamedTuple):
    """The inequalities in the order of the path, prompt to words."""

    decodable: Evidence
    trained: Evidence
    moved: Evidence
    carried: Evidence
    said: Evidence
    upright: Evidence
    readable: Evidence
    unbiased: Evidence
    kept: Evidence

    @property
    def reaches_slot(self) -> bool:
        """Whether a probe at the answer slot beats the text."""
        return "beats" in (self.trained.verdict, self.moved.verdict)

    @property
    def misses_slot(self) -> bool:
        """Whether decidedly none does; where it is open, neither holds."""
        return self.trained.verdict == self.moved.verdict == "does not beat"


def sentence_of(stage: str, found: Found, open_question: Evidence | None) -> str:
    """What a diagnosis says; `open_question` is the inequality that left it undetermined."""
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
    if stage == "not_transported" and not found.misses_slot:
        how = "partly lost" if found.reaches_slot else "lost, wholly or in part,"
        return (
            f"The outcome is foretold at prediction time beyond the text, and {how} on the way to the "
            f"answer slot of the self-prediction ({_shown(found.carried)} against the task probe)."
        )
    if stage == "not_read_out" and found.upright.verdict == "under":
        return (
            "The outcome is still there at the answer slot, but the words are inverted: they rank it the "
            f"wrong way round (AUROC {_shown(found.upright)}; words minus probe {_shown(found.said)})."
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

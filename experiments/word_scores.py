"""How good answers in words are: strict, lenient, and against the best answer that never changes.

What a score does not show: that the model looked inside; a reader of the text may do as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from experiments.records import json_number
from experiments.tasks import Form
from probes import Interval, mean_interval, rate_interval


@dataclass(frozen=True)
class AnswerScore:
    """Answers of one form, scored from 0 to 1 an item.

    `strict` counts an unparsed answer as 0, `lenient` leaves it out (None where none could be parsed). `constant` is
    the answer that scores best if given to every item, and `skill` is strict minus its score: a constant predictor has
    no more than 0, and the best one has exactly 0 (2608.30980).
    """

    n_items: int
    parse_rate: Interval
    strict: Interval
    lenient: float | None
    constant: Any
    constant_score: float
    skill: Interval
    unscored: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """Its part of `results.json`."""
        return {
            "n_items": self.n_items,
            "parse_rate": json_number(self.parse_rate.estimate),
            "strict": json_number(self.strict.estimate),
            "strict_ci": [json_number(self.strict.low), json_number(self.strict.high)],
            "lenient": None if self.lenient is None else json_number(self.lenient),
            "constant": self.constant,
            "constant_score": json_number(self.constant_score),
            "skill": json_number(self.skill.estimate),
            "skill_ci": [json_number(self.skill.low), json_number(self.skill.high)],
            "unscored": self.unscored,
        }


def score_answers(
    form: Form,
    predicted: Sequence[Any],
    trues: Sequence[Any],
    groups: Sequence[str] | np.ndarray,
    reasons: Sequence[str] = (),
) -> AnswerScore:
    """Score predictions (None: unparsed) against what happened, an item each.

    Args:
        form: scores one prediction and names the constant ones.
        predicted, trues, groups: `[item]`; intervals are clustered on groups.
        reasons: why an answer is unparsed, "" where it is not.

    Raises:
        ValueError: different lengths, or fewer than 2 groups.
    """
    if not len(predicted) == len(trues) == len(groups):
        raise ValueError(
            f"predicted: {len(predicted)} for {len(trues)} truths and {len(groups)} groups; give one an item"
        )
    readable = np.array([one is not None for one in predicted])
    scores = np.array(
        [
            form.score(one, true) if one is not None else 0.0
            for one, true in zip(predicted, trues, strict=True)
        ]
    )
    constant, constant_scores = best_constant(form, trues)
    return AnswerScore(
        n_items=len(trues),
        parse_rate=rate_interval(readable, groups),
        strict=mean_interval(scores, groups, bounds=(0.0, 1.0)),
        lenient=float(scores[readable].mean()) if readable.any() else None,
        constant=constant,
        constant_score=float(constant_scores.mean()),
        skill=mean_interval(scores - constant_scores, groups),
        unscored=dict(Counter(reason for reason in reasons if reason)),
    )


def best_constant(form: Form, trues: Sequence[Any]) -> tuple[Any, np.ndarray]:
    """The prediction that scores best if it is made for every item, and its score of every item."""
    scored = [
        (constant, np.array([form.score(constant, true) for true in trues]))
        for constant in form.constants(trues)
    ]
    return max(scored, key=lambda pair: float(pair[1].mean()))


class Gain(NamedTuple):
    """A difference of two strict scores, and what it owes to format and to quality."""

    total: float
    format: float
    quality: float


def split_gain(parse_rate: tuple[float, float], lenient: tuple[float | None, float | None]) -> Gain:
    """Split the gain in strict score, before and after, between parse rate and score of the parsed answers.

    The Shapley value of the two factors of strict = parse rate x lenient: each factor's change, at the mean of the
    other. The parts sum to the gain. Where nothing was parsed the score counts as 0.
    """
    (p0, p1), (c0, c1) = parse_rate, (0.0 if one is None else one for one in lenient)
    return Gain(
        total=p1 * c1 - p0 * c0,
        format=(p1 - p0) * (c0 + c1) / 2,
        quality=(c1 - c0) * (p0 + p1) / 2,
    )

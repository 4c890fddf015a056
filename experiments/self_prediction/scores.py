"""Predictions of one kind over several seeds, scored on the same items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int
from scipy.stats import t as student_t

from experiments.records import json_number
from experiments.self_prediction.predicted import Predicted
from experiments.tasks import Choice
from experiments.word_scores import best_constant, split_gain
from probes import (
    Interval,
    auroc_interval,
    brier_score,
    expected_calibration_error,
    mean_interval,
    same_fold_auroc,
)

OUTCOMES = Choice(("0", "1"))
"""The form of an answer here, for the constant that answers best."""


@dataclass(frozen=True)
class MethodScores:
    """One method on one test.

    All are means over seeds; the intervals are clustered on groups, and where seeds differ they are widened by what the
    mean over other seeds would vary (Student's t). That of an AUROC of what was trained covers what another training
    set would give too ("procedure" of METHODS section 3).
    `lenient` is None where no answer could be read. `calibration_error` has equal-mass bins.
    """

    n_items: int
    n_groups: int
    n_seeds: int
    parse_rate: float
    strict: Interval
    lenient: float | None
    skill: Interval
    auroc: Interval
    calibration_error: float
    brier: float
    auroc_of_seeds: tuple[float, ...]
    strict_of_seeds: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Its part of `results.json`."""

        def numbers(name: str, interval: Interval) -> dict[str, Any]:
            bounds = [json_number(interval.low), json_number(interval.high)]
            return {name: json_number(interval.estimate), f"{name}_ci": bounds}

        return {
            "n_items": self.n_items,
            "n_groups": self.n_groups,
            "n_seeds": self.n_seeds,
            "parse_rate": json_number(self.parse_rate),
            **numbers("strict", self.strict),
            "lenient": None if self.lenient is None else json_number(self.lenient),
            **numbers("skill", self.skill),
            **numbers("auroc", self.auroc),
            "calibration_error": json_number(self.calibration_error),
            "brier": json_number(self.brier),
            "approximate": self.auroc.approximate,
            "auroc_of_seeds": [json_number(one) for one in self.auroc_of_seeds],
            "strict_of_seeds": [json_number(one) for one in self.strict_of_seeds],
        }


def score_seeds(
    outcome: Int[np.ndarray, " item"],
    groups: np.ndarray,
    predicted: Sequence[Predicted],
    *,
    is_trained: bool,
) -> MethodScores:
    """Score the predictions of every seed against what happened.

    Args:
        outcome: what the model did.
        groups: of the items.
        predicted: one a seed, of the same items.
        is_trained: whether something was learned from other items.

    Raises:
        ValueError: a class without items, or fewer than 2 groups.
    """
    truths = [str(one) for one in outcome]
    right = np.array(
        [
            [
                0.0 if answer is None else OUTCOMES.score(str(answer), truth)
                for answer, truth in zip(one.answer, truths, strict=True)
            ]
            for one in predicted
        ]
    )
    readable = np.array([[answer is not None for answer in one.answer] for one in predicted])
    _, constant = best_constant(OUTCOMES, truths)
    strict = right.mean(axis=0)
    scores = np.stack([one.score for one in predicted])
    fold = np.zeros(len(outcome), dtype=np.int64)
    aurocs = [float(same_fold_auroc(outcome, row, fold)) for row in scores]
    strict_of_seeds = right.mean(axis=1).tolist()
    return MethodScores(
        n_items=len(outcome),
        n_groups=len(set(groups)),
        n_seeds=len(predicted),
        parse_rate=float(readable.mean()),
        strict=over_seeds(
            mean_interval(strict, groups, bounds=(0.0, 1.0)), strict_of_seeds, bounds=(0.0, 1.0)
        ),
        lenient=float(right[readable].mean()) if readable.any() else None,
        skill=over_seeds(mean_interval(strict - constant, groups), strict_of_seeds),
        auroc=over_seeds(
            auroc_interval(
                outcome,
                scores,
                np.tile(fold, (len(predicted), 1)),
                groups,
                estimand="procedure" if is_trained else "fixed",
            ),
            aurocs,
            bounds=(0.0, 1.0),
        ),
        calibration_error=_mean(
            expected_calibration_error(outcome, one.probability) for one in predicted
        ),
        brier=_mean(brier_score(outcome, one.probability) for one in predicted),
        auroc_of_seeds=tuple(aurocs),
        strict_of_seeds=tuple(strict_of_seeds),
    )


def over_seeds(
    interval: Interval, of_seeds: Sequence[float], *, bounds: tuple[float, float] | None = None
) -> Interval:
    """The interval of a mean over seeds, widened by the standard error of that mean times Student's t.

    What items and what seeds vary is added as independent parts: half widths in squares. It may count a part twice,
    where the interval knows already that trainings differ, and is then too wide.
    """
    n = len(of_seeds)
    if n < 2:
        return interval
    spread = student_t.ppf(0.975, n - 1) * np.std(of_seeds, ddof=1) / np.sqrt(n)
    low = interval.estimate - float(np.hypot(interval.estimate - interval.low, spread))
    high = interval.estimate + float(np.hypot(interval.high - interval.estimate, spread))
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return replace(interval, low=low, high=high)


def gain_json(before: MethodScores, after: MethodScores) -> dict[str, float | None]:
    """The gain in strict score over untrained words, and what it owes to format and to quality (Shapley)."""
    gain = split_gain((before.parse_rate, after.parse_rate), (before.lenient, after.lenient))
    return {name: json_number(value) for name, value in gain._asdict().items()}


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))

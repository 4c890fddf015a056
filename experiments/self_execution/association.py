"""Does a model's prediction of its own associations say more than "never", or than what other models say and do?

What this does not show: what would come out of more than one list of words a target; every outcome is one sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from experiments.self_execution.association_files import AssociationRun, Pair
from experiments.self_execution.majority import majority
from experiments.self_execution.released import require_distinct
from experiments.self_execution.shares import Reading
from experiments.self_execution.yes_no import (
    UNKNOWN,
    Compared,
    compare,
    grouped_counts,
    score_counts,
)


@dataclass(frozen=True)
class AssociationScore:
    """One model: the benchmark's own metrics, and every predictor of whether an option is among the model's words."""

    model: str
    run: AssociationRun
    published: Mapping[str, float]
    """Under the benchmark's names, of the pairs with a prediction; nan where a share is of nothing."""
    n_unparsed: int
    """Pairs whose prediction is neither true nor false."""
    n_ties: int
    """Pairs on which the other models' lists are split evenly, or absent; `others` is wrong there."""
    readings: Mapping[Reading, Compared]


def score_association(runs: Sequence[AssociationRun]) -> list[AssociationScore]:
    """Score the predictors of every model's lists, a score a run, in their order.

    Predictors: `self`, what the model said; `never`, no option is ever listed; `others`, the majority of the other
    models' lists; `others_said`, the majority of what the others said of themselves (both absent for a single run).
    Strict counts an unparsed prediction as wrong, lenient leaves the pair out for all. Groups are the target words.

    Raises:
        ValueError: two runs of one model, or one without any prediction.
    """
    require_distinct([run.model for run in runs])
    return [_score(run, [other for other in runs if other is not run]) for run in runs]


def _score(run: AssociationRun, others: Sequence[AssociationRun]) -> AssociationScore:
    pairs = list(run.listed)
    outcome = np.array([run.listed[pair] for pair in pairs], dtype=np.int64)
    targets = np.array([target for target, _ in pairs])
    said = _codes(run.predicted, pairs)
    predictions: dict[str, Int[np.ndarray, "pair"]] = {
        "self": said,
        "never": np.zeros_like(outcome),
    }
    if others:
        predictions["others"] = _majority(others, lambda one: one.listed, pairs)
        predictions["others_said"] = _majority(others, lambda one: one.predicted, pairs)
    known = said != UNKNOWN
    if not known.any():
        raise ValueError(f"file: {run.model} has no prediction that is true or false")
    counts = grouped_counts(outcome[known], said[known], targets[known]).sum(axis=0)
    return AssociationScore(
        model=run.model,
        run=run,
        published=_published(counts),
        n_unparsed=int((~known).sum()),
        n_ties=int((predictions["others"] == UNKNOWN).sum()) if others else 0,
        readings={
            "strict": compare(outcome, predictions, targets),
            "lenient": _lenient(outcome, predictions, targets, known),
        },
    )


def _lenient(
    outcome: Int[np.ndarray, "pair"],
    predictions: Mapping[str, Int[np.ndarray, "pair"]],
    targets: NDArray[np.str_],
    known: NDArray[np.bool_],
) -> Compared:
    kept = {name: one[known] for name, one in predictions.items()}
    return compare(outcome[known], kept, targets[known])


def _codes(answers: Mapping[Pair, bool | None], pairs: Sequence[Pair]) -> Int[np.ndarray, "pair"]:
    found = (answers.get(pair) for pair in pairs)
    return np.array([UNKNOWN if one is None else int(one) for one in found])


def _majority(
    runs: Sequence[AssociationRun],
    answers: Callable[[AssociationRun], Mapping[Pair, bool | None]],
    pairs: Sequence[Pair],
) -> Int[np.ndarray, "pair"]:
    return majority(np.array([_codes(answers(run), pairs) for run in runs]))


def _published(counts: NDArray[np.float64]) -> dict[str, float]:
    tp, fp, tn, fn = counts
    return {
        **{name: int(n) for name, n in zip(("TP", "FP", "TN", "FN"), counts, strict=True)},
        "accuracy": float(score_counts("accuracy", counts)),
        "precision": _share(tp, tp + fp),
        "recall": _share(tp, tp + fn),
        "f1_score": float(score_counts("f1", counts)),
        "baseline_false_accuracy": _share(fp + tn, counts.sum()),
    }


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")

"""Does a model's own order of difficulty say more than a fixed order, the questions' length, or what others find hard?

What this does not show: that the order is of difficulty; it is mostly of answer length among questions answered right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Float

from experiments.self_execution.difficulty_files import (
    QUESTIONS,
    DifficultyRun,
    Questions,
    Ranking,
    answers_in_place,
)
from experiments.self_execution.rankings import (
    best_constant,
    pairs_agreed,
    share_in_order,
)
from experiments.self_execution.released import require_distinct
from experiments.self_execution.shares import Reading, Shares, shares_right
from probes import Interval, mean_interval, rate_interval

PairKind = Literal["correctness", "tokens"]
RANDOM = 0.5
"""Share of pairs that a random order has right, on average."""


@dataclass(frozen=True)
class DifficultyScore:
    """One model: its own order and every other against the measured one."""

    model: str
    run: DifficultyRun
    groups: tuple[str, ...]
    """Those with a measured ranking."""
    scores: Mapping[str, float]
    """The benchmark's score of each of these groups that the model ranked; 0 for a ranking that is no permutation."""
    readings: Mapping[Reading, Shares]
    pair_kinds: Mapping[PairKind, Interval]
    """The own order on pairs of a right and a wrong answer, and on pairs that differ in tokens alone."""


def score_difficulty(
    runs: Sequence[DifficultyRun], questions: Questions | None
) -> list[DifficultyScore]:
    """Score the predictors of every model's measured order, a score a run, in their order.

    Predictors: `self`, the model's own ranking; `others`, the mean place in the other models' measured orders, and
    `others_said`, in their own rankings (both absent for a single run); `length`, the shorter question first (absent
    without questions); `listed`, as numbered; `constant`, the one order that fits best in hindsight.
    Strict scores a group without an own ranking, or with one that is no permutation, as 0; lenient leaves it out for
    all.

    Raises:
        ValueError: two runs of one model, or one that ranks no group.
    """
    require_distinct([run.model for run in runs])
    return [_score(run, [one for one in runs if one is not run], questions) for run in runs]


def _score(
    run: DifficultyRun, others: Sequence[DifficultyRun], questions: Questions | None
) -> DifficultyScore:
    names = tuple(name for name, one in run.sets.items() if one.measured)
    measured = _places([run.sets[name].measured for name in names])
    own = _places([run.sets[name].predicted for name in names])
    ranked = ~np.isnan(own).any(axis=1)
    if not ranked.any():
        raise ValueError(f"file: {run.model} ranks no group; give a model with rankings")
    predictors: dict[str, Float[np.ndarray, "group question"]] = {"self": own}
    if others:
        predictors["others"] = _mean_places(
            [[_set(one, name, "measured") for name in names] for one in others]
        )
        predictors["others_said"] = _mean_places(
            [[_set(one, name, "predicted") for name in names] for one in others]
        )
    if questions is not None:
        predictors["length"] = np.array([_lengths(questions, name) for name in names])
    predictors["listed"] = np.broadcast_to(np.arange(4.0), own.shape)
    predictors["constant"] = np.broadcast_to(best_constant(measured), own.shape)
    shares = {name: share_in_order(one, measured) for name, one in predictors.items()}
    shares["self"] = np.where(ranked, shares["self"], 0.0)
    everything, groups = np.ones(len(names), dtype=bool), np.array(names)
    return DifficultyScore(
        model=run.model,
        run=run,
        groups=names,
        scores={
            name: float(share)
            for name, share in zip(names, shares["self"], strict=True)
            if run.sets[name].kind != "none"
        },
        readings={
            "strict": shares_right(shares, everything, groups, mean_interval),
            "lenient": shares_right(shares, ranked, groups, mean_interval),
        },
        pair_kinds=_by_kind(run, names, pairs_agreed(own, measured), questions),
    )


def _places(rankings: Sequence[Ranking | None]) -> Float[np.ndarray, "group question"]:
    """The place of Q1 to Q4 in every ranking; nan without one."""
    nowhere = [np.nan] * len(QUESTIONS)
    return np.array(
        [nowhere if one is None else [one.index(name) for name in QUESTIONS] for one in rankings],
        dtype=float,
    )


def _set(run: DifficultyRun, name: str, which: Literal["measured", "predicted"]) -> Ranking | None:
    return getattr(run.sets[name], which) if name in run.sets else None


def _mean_places(
    rankings: Sequence[Sequence[Ranking | None]],
) -> Float[np.ndarray, "group question"]:
    """Mean over the models that have a ranking `[model][group]`; all tied where none has."""
    places = np.array([_places(of_model) for of_model in rankings])
    known = ~np.isnan(places)
    total = np.where(known, places, 0.0).sum(axis=0)
    return np.asarray(total / np.maximum(known.sum(axis=0), 1))


def _lengths(questions: Questions, name: str) -> list[float]:
    if name not in questions:
        raise ValueError(
            f"questions: no group {name!r}; give the question_groups.csv of these results"
        )
    length = {question.place: question.length for question in questions[name].values()}
    return [float(length[place]) for place in QUESTIONS]


def _by_kind(
    run: DifficultyRun,
    names: Sequence[str],
    agreed: Float[np.ndarray, "group pair"],
    questions: Questions | None,
) -> dict[PairKind, Interval]:
    """Of ranked groups whose four answers are known; pairs that differ in neither are left out."""
    right: dict[PairKind, list[bool]] = {"correctness": [], "tokens": []}
    groups: dict[PairKind, list[str]] = {"correctness": [], "tokens": []}
    for name, of_group in zip(names, agreed, strict=True):
        answers = answers_in_place(run, name, questions or {})
        if answers is None or np.isnan(of_group).any():
            continue
        for (first, second), agrees in zip(combinations(answers, 2), of_group, strict=True):
            kind: PairKind = "correctness" if first.correct != second.correct else "tokens"
            if (first.correct, first.duration) != (second.correct, second.duration):
                right[kind].append(bool(agrees == 1))
                groups[kind].append(name)
    return {
        kind: rate_interval(right[kind], groups[kind])
        for kind in right
        if len(set(groups[kind])) > 1
    }

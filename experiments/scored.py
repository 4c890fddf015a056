"""A predictor's scores, with what an interval must know of how they were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from probes import Estimand, Interval, NestedResult, auroc_difference, auroc_interval


@dataclass(frozen=True)
class Scored:
    """Scores of items, and of what was trained here the training scores too, where they are known."""

    scores: np.ndarray
    """`[regrouping, item]`, or `[item]` of what was not trained."""
    training: np.ndarray | None
    """`[regrouping, fold, item]` as `probes.NestedResult.training_scores`: what a stack is fitted on, and what training
    sets add to an interval is read off. Of what was not trained, the scores themselves."""
    is_trained: bool = True

    @classmethod
    def fixed(cls, scores: np.ndarray) -> Scored:
        """Of words, another model, a number that nothing was fitted for."""
        return cls(scores, scores, is_trained=False)

    @classmethod
    def of(cls, nested: NestedResult) -> Scored:
        """Of a nested selection."""
        return cls(nested.scores, nested.training_scores)

    @property
    def estimand(self) -> Estimand:
        """What the interval is about."""
        return "procedure" if self.is_trained else "fixed"

    def without_training(self) -> Scored:
        """For other pairs than those of its folds: what training adds is then bounded, not measured."""
        return replace(self, training=None) if self.is_trained else self

    def among(self, members: Bool[np.ndarray, " item"]) -> Scored:
        """On some of the items; what was trained stays as it is."""
        scores = np.asarray(self.scores)[..., members]
        return replace(self, scores=scores, training=None if self.is_trained else scores)

    def training_beside(self, other: Scored) -> tuple[np.ndarray, np.ndarray] | None:
        """Training scores of both, or None where one lacks them."""
        if self.training is None or other.training is None:
            return None
        return self.training, other.training

    def interval(
        self, outcome: Int[np.ndarray, " item"], folds: np.ndarray, groups: np.ndarray
    ) -> Interval:
        """Its same-fold AUROC."""
        return auroc_interval(
            outcome,
            self.scores,
            folds,
            groups,
            estimand=self.estimand,
            training_scores=self.training if self.is_trained else None,
        )

    def minus(
        self,
        other: Scored,
        outcome: Int[np.ndarray, " item"],
        folds: np.ndarray,
        groups: np.ndarray,
    ) -> Interval:
        """Its same-fold AUROC minus that of another, on the same pairs."""
        trained = (self.is_trained, other.is_trained)
        return auroc_difference(
            outcome,
            self.scores,
            other.scores,
            folds,
            groups,
            estimand="procedure" if any(trained) else "fixed",
            trained=trained,
            training_scores=self.training_beside(other),
        )


def score_out_of_fold(
    folds: Int[np.ndarray, "regrouping item"],
    score: Callable[[int, int, Bool[np.ndarray, " item"], Bool[np.ndarray, " item"]], np.ndarray],
) -> Scored:
    """Train without every fold, and without every pair of folds for the training scores.

    Args:
        folds: 0..F-1 in every regrouping.
        score: from the regrouping, the outer fold, the rows to train on and those to score (masks `[item]`), to the
            scores of the latter.
    """
    scores = np.empty(folds.shape)
    training: Float[np.ndarray, "regrouping fold item"] = np.zeros(
        (len(folds), int(folds.max()) + 1, folds.shape[1])
    )
    for r, fold_of in enumerate(folds):
        for outer in np.unique(fold_of):
            others = fold_of != outer
            scores[r, ~others] = score(r, outer, others, ~others)
            for inner in np.unique(fold_of[others]):
                test = fold_of == inner
                training[r, outer, test] = score(r, outer, others & ~test, test)
    return Scored(scores, training)

"""Every predictor of the outcome, scored out-of-fold on identical items, folds and pairs.

The probe in the task context, the probe at the answer slot of the self-prediction, the task probe moved there, the
words, and what the text alone says. Each that is trained is nested alike: whatever is chosen (layer, position,
penalty) is chosen on inner folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from jaxtyping import Float, Int

from activations_cache import Cell
from experiments.baselines import nested_text_stack
from experiments.inequalities import TrainingScores
from experiments.progress import Advance
from experiments.task_data import TaskData, cell_name
from experiments.tasks import Elicitation
from probes import (
    Candidate,
    Estimand,
    LogisticProbe,
    NestedResult,
    RidgeProbe,
    nested_ridge,
    within_fold_zscores,
)

Rows = Float[np.ndarray, "regrouping item"]


@dataclass(frozen=True)
class Grid:
    """A nested ridge over cells, with the cells that its candidates stand for."""

    cells: tuple[Cell, ...]
    nested: NestedResult

    @property
    def chosen(self) -> tuple[Cell, float]:
        """The cell selected most often, and its usual alpha."""
        name, alpha = self.nested.modal
        return self.cells[self.nested.names.index(name)], alpha

    @property
    def selected(self) -> list[list[tuple[Cell, float]]]:
        """The cell and alpha selected without each fold, in every regrouping."""
        nested = self.nested
        return [
            [(self.cells[cell], float(alpha)) for cell, alpha in zip(*choices, strict=True)]
            for choices in zip(nested.selected_candidate, nested.selected_penalty, strict=True)
        ]


@dataclass(frozen=True)
class Predictions:
    """Out-of-fold scores `[regrouping, item]` of every predictor of one task, on the same folds."""

    groups: np.ndarray
    folds: Int[np.ndarray, "regrouping item"]
    probe: Grid
    report: Grid
    transferred: Rows
    verbal: Rows
    supervised_words: Rows
    baselines: dict[str, Rows]
    text: Rows
    training: TrainingScores

    def rows(self) -> dict[str, tuple[Rows, Estimand]]:
        """Every predictor by its name in the results, with its estimand."""
        trained: dict[str, Rows] = {
            "probe": self.probe.nested.scores,
            "report_probe": self.report.nested.scores,
            "transferred_probe": self.transferred,
            "supervised_words": self.supervised_words,
            "text": self.text,
            **self.baselines,
        }
        rows: dict[str, tuple[Rows, Estimand]] = {"verbal": (self.verbal, "fixed")}
        return rows | {name: (scores, "procedure") for name, scores in trained.items()}


@dataclass(frozen=True)
class Fitting:
    """How predictors are fitted: one record, so that all see the same folds."""

    n_folds: int
    n_regroupings: int
    seed: int

    def predict(self, data: TaskData, groups: np.ndarray, advance: Advance) -> Predictions:
        """Score every predictor with `groups` kept whole; calls `advance(1)` after each of `N_STEPS`."""
        probe = Grid(data.cells, self.nested(data.task_candidates, data, groups))
        advance(1)
        report = self._report_grid(data, groups, "prompt_last", data.elicitations)
        advance(1)
        folds = probe.nested.folds
        text = nested_text_stack(
            data.text_families,
            data.outcome,
            groups,
            n_folds=self.n_folds,
            n_regroupings=self.n_regroupings,
            seed=self.seed,
        )
        transferred, transferred_training = transferred_scores(data, probe)
        advance(1)
        return Predictions(
            groups=groups,
            folds=folds,
            probe=probe,
            report=report,
            transferred=transferred,
            verbal=verbal_scores(data, folds),
            supervised_words=supervised_word_scores(data, folds),
            baselines={name: one.scores for name, one in text.families.items()},
            text=text.scores,
            training=TrainingScores(
                task=probe.nested.training_scores,
                text=text.training_scores,
                report=report.nested.training_scores,
                transferred=transferred_training,
            ),
        )

    def curve(
        self, data: TaskData, groups: np.ndarray, position: str
    ) -> Float[np.ndarray, " layer"]:
        """AUROC of every layer at a position of the self-prediction context that all elicitations share."""
        return self._report_grid(data, groups, position, data.elicitations[:1]).nested.curve

    def _report_grid(
        self,
        data: TaskData,
        groups: np.ndarray,
        position: str,
        elicitations: Sequence[Elicitation],
    ) -> Grid:
        """A grid over the layers of the self-prediction context, a source an elicitation."""
        cells = tuple(cell for cell in data.report_cache.cells() if cell[2] == position)
        candidates = [
            Candidate.lazy(
                cell_name(cell), *(partial(data.report_features, cell, e) for e in elicitations)
            )
            for cell in cells
        ]
        return Grid(cells, self.nested(candidates, data, groups))

    def nested(
        self,
        candidates: Sequence[Candidate],
        data: TaskData,
        groups: np.ndarray,
    ) -> NestedResult:
        """A nested ridge of the outcome with `groups` kept whole."""
        return nested_ridge(
            candidates,
            data.outcome,
            groups,
            n_folds=self.n_folds,
            n_regroupings=self.n_regroupings,
            seed=self.seed,
        )


N_STEPS = 3
"""Steps that `Fitting.predict` reports."""


def verbal_scores(data: TaskData, folds: Int[np.ndarray, "regrouping item"]) -> Rows:
    """*The* verbal score, fixed beforehand: log-odds, z-scored within fold, mean over all elicitations.

    Both option orders are in the mean, so that a preference for a position cancels.
    """
    return np.stack([within_fold_zscores(data.log_odds.T, fold).mean(axis=1) for fold in folds])


def supervised_word_scores(data: TaskData, folds: Int[np.ndarray, "regrouping item"]) -> Rows:
    """What the words say to a reader that has seen labels: logistic regression on the vector of log-odds.

    Fixed beforehand: standardized on the training folds, C = 1.
    """
    scores = np.empty(folds.shape)
    for r, fold_of in enumerate(folds):
        for fold in np.unique(fold_of):
            test = fold_of == fold
            model = LogisticProbe(C=1.0).fit(data.log_odds.T[~test], data.outcome[~test])
            scores[r, test] = model.decision_function(data.log_odds.T[test])
    return scores


def transferred_scores(
    data: TaskData, probe: Grid
) -> tuple[Rows, Float[np.ndarray, "regrouping fold item"]]:
    """The task probe moved to the answer slot, and the training scores of that.

    The cell and penalty selected without the item's fold, trained in the task context, applied at the same layer of
    the answer slot of every elicitation, z-scored and averaged as there. A mean shift between the contexts would move
    all scores of a fold alike and leave their order.
    """
    nested = probe.nested
    read_task = cache(data.task_features)
    read_slot = cache(data.report_features)

    def moved(r: int, outer: int, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        site, layer, position = probe.cells[nested.selected_candidate[r, outer]]
        model = RidgeProbe(alpha=float(nested.selected_penalty[r, outer]))
        model.fit(read_task((site, layer, position))[train], data.outcome[train])
        slots = [
            model.decision_function(read_slot((site, layer, "prompt_last"), e)[test])
            for e in data.elicitations
        ]
        standard = within_fold_zscores(np.stack(slots, axis=1), np.zeros(test.sum()))
        averaged: np.ndarray = standard.mean(axis=1)
        return averaged

    scores = np.empty(nested.folds.shape)
    training = np.zeros(nested.training_scores.shape)
    for r, fold_of in enumerate(nested.folds):
        for outer in np.unique(fold_of):
            scores[r, fold_of == outer] = moved(r, outer, fold_of != outer, fold_of == outer)
            for inner in np.unique(fold_of[fold_of != outer]):
                train = (fold_of != outer) & (fold_of != inner)
                test = fold_of == inner
                training[r, outer, test] = moved(r, outer, train, test)
    return scores, training

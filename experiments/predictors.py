"""Every predictor of the outcome, scored out-of-fold on identical items, folds and pairs.

The probe in the task context, the probe at the answer slot of the self-prediction, the task probe moved there, the
words, and what the text alone says. Each that is trained is nested alike: whatever is chosen (layer, position,
penalty) is chosen on inner folds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from jaxtyping import Float, Int

from activations_cache import Cell
from experiments.baselines import nested_text_stack
from experiments.inequalities import TrainingScores
from experiments.progress import Advance
from experiments.scored import Scored, score_out_of_fold
from experiments.task_data import TaskData, WordData, cell_name
from experiments.tasks import Elicitation
from probes import (
    Candidate,
    LogisticProbe,
    NestedResult,
    nested_ridge,
    within_fold_zscores,
)
from probes.ridge import RidgeSource

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
    """Every predictor of one task, scored out of fold on the same folds."""

    groups: np.ndarray
    folds: Int[np.ndarray, "regrouping item"]
    probe: Grid
    report: Grid
    transferred: Scored
    verbal: Scored
    supervised_words: Scored
    baselines: dict[str, Scored]
    text: Scored

    @property
    def training(self) -> TrainingScores:
        """Of the probes and the text, as `diagnose` takes them."""
        return TrainingScores(
            task=self.probe.nested.training_scores,
            text=self.text.training,
            report=self.report.nested.training_scores,
            transferred=self.transferred.training,
        )

    def rows(self) -> dict[str, Scored]:
        """Every predictor by its name in the results."""
        return {
            "verbal": self.verbal,
            "probe": Scored.of(self.probe.nested),
            "report_probe": Scored.of(self.report.nested),
            "transferred_probe": self.transferred,
            "supervised_words": self.supervised_words,
            "text": self.text,
            **self.baselines,
        }


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
        advance(1)
        return Predictions(
            groups=groups,
            folds=folds,
            probe=probe,
            report=report,
            transferred=transferred_scores(data, probe),
            verbal=Scored.fixed(verbal_scores(data, folds)),
            supervised_words=supervised_word_scores(data, folds),
            baselines={name: Scored.of(one) for name, one in text.families.items()},
            text=Scored(text.scores, text.training_scores),
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


def verbal_scores(data: WordData, folds: Int[np.ndarray, "regrouping item"]) -> Rows:
    """*The* verbal score, fixed beforehand: log-odds, z-scored within fold, mean over all elicitations.

    Both option orders are in the mean, so that a preference for a position cancels.
    """
    return averaged_log_odds(data.log_odds, folds)


def averaged_log_odds(
    log_odds: Float[np.ndarray, "elicitation item"], folds: Int[np.ndarray, "regrouping item"]
) -> Rows:
    """Z-scored within fold, mean over elicitations."""
    return np.stack([within_fold_zscores(log_odds.T, fold).mean(axis=1) for fold in folds])


def supervised_word_scores(data: WordData, folds: Int[np.ndarray, "regrouping item"]) -> Scored:
    """What the words say to a reader that has seen labels: logistic regression on the vector of log-odds.

    Fixed beforehand: standardized on the training folds, C = 1.
    """
    words = data.log_odds.T

    def score(r: int, outer: int, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        model = LogisticProbe(C=1.0).fit(words[train], data.outcome[train])
        return model.decision_function(words[test])

    return score_out_of_fold(folds, score)


def transferred_scores(data: TaskData, probe: Grid) -> Scored:
    """The task probe moved to the answer slot of every elicitation, at the layer that it was selected at."""

    def read_slots(candidate: int) -> list[np.ndarray]:
        site, layer, _ = probe.cells[candidate]
        return [data.report_features((site, layer, "prompt_last"), e) for e in data.elicitations]

    return moved_scores(
        probe.nested,
        lambda candidate: data.task_features(probe.cells[candidate]),
        read_slots,
    )


def moved_scores(
    nested: NestedResult,
    read_task: Callable[[int], Float[np.ndarray, "item d_model"]],
    read_slots: Callable[[int], Sequence[Float[np.ndarray, "item d_model"]]],
) -> Scored:
    """A nested ridge moved to other states than it was trained on.

    The candidate and penalty selected without the item's fold, trained on one kind of state, applied to every one of
    the others, z-scored and averaged as there. A mean shift between the kinds would move all scores of a fold alike
    and leave their order.

    Args:
        nested: of the states it was trained on.
        read_task: from the index of a candidate to those states.
        read_slots: from the index to the states that it is applied to, one a source.
    """
    n_items = len(nested.y)
    targets = 2.0 * nested.y[:, None] - 1

    @cache
    def sources(candidate: int) -> list[RidgeSource]:
        """The states of training above those that are read, so that one solver has both."""
        task = read_task(candidate)
        return [RidgeSource(np.concatenate([task, slot])) for slot in read_slots(candidate)]

    def moved(r: int, outer: int, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        alpha = float(nested.selected_penalty[r, outer])
        rows, read = np.flatnonzero(train), n_items + np.flatnonzero(test)
        slots = [
            source.scores(rows, read, targets[rows], [alpha])[0, :, 0]
            for source in sources(int(nested.selected_candidate[r, outer]))
        ]
        standard = within_fold_zscores(np.stack(slots, axis=1), np.zeros(len(read)))
        averaged: np.ndarray = standard.mean(axis=1)
        return averaged

    return score_out_of_fold(nested.folds, moved)

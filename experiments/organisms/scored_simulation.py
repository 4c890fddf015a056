"""A simulation scored as a run is: the same nested ridge, the same folds, the same moved probe, and then `diagnose`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from experiments.breakdown import Breakdown, diagnose
from experiments.inequalities import DEFAULT_RULES, Rules, TrainingScores
from experiments.organisms.simulate import Simulated
from experiments.predictors import moved_scores
from experiments.scored import Scored
from probes import Candidate, NestedResult, nested_ridge

N_REGROUPINGS = 5
"""As a run has by default."""


@dataclass(frozen=True)
class ScoredSimulation:
    """The out-of-fold scores that `diagnose` reads."""

    simulated: Simulated
    task: NestedResult
    slot: NestedResult
    text: NestedResult
    moved: Scored

    def diagnose(self, rules: Rules = DEFAULT_RULES) -> Breakdown:
        """The stage, by the rules given."""
        data = self.simulated
        return diagnose(
            data.outcome,
            data.groups,
            self.task.scores,
            self.text.scores,
            self.slot.scores,
            self.moved.scores,
            data.margin,
            data.answer,
            folds=self.task.folds,
            training_scores=TrainingScores(
                task=self.task.training_scores,
                text=self.text.training_scores,
                report=self.slot.training_scores,
                transferred=self.moved.training,
            ),
            rules=rules,
        )


def score(
    simulated: Simulated, *, n_regroupings: int = N_REGROUPINGS, seed: int = 0
) -> ScoredSimulation:
    """Fit every probe and the text baseline on the same folds, layers and penalties chosen on inner ones.

    Raises ValueError where `probes.skip_reason` gives one.
    """

    def nested(layers: Sequence[Float[np.ndarray, "item feature"]]) -> NestedResult:
        candidates = [Candidate(str(layer), (rows,)) for layer, rows in enumerate(layers)]
        return nested_ridge(
            candidates,
            simulated.outcome,
            simulated.groups,
            n_regroupings=n_regroupings,
            seed=seed,
        )

    task = nested(list(np.moveaxis(simulated.task, 1, 0)))
    return ScoredSimulation(
        simulated=simulated,
        task=task,
        slot=nested(list(np.moveaxis(simulated.slot, 1, 0))),
        text=nested([simulated.text]),
        moved=moved_scores(
            task,
            lambda layer: simulated.task[:, layer],
            lambda layer: [simulated.slot[:, layer]],
        ),
    )

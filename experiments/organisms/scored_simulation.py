"""A simulation scored as a run is: the same nested ridge, the same folds, the same moved probe, and then `diagnose`."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

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


class Scorer:
    """Fits every probe and the text baseline on the same folds, layers and penalties chosen on inner ones.

    Fits are remembered: plants of one seed that differ in the words alone share all states.

    Args:
        n_regroupings: of the folds.
        seed: of the folds.
    """

    def __init__(self, *, n_regroupings: int = N_REGROUPINGS, seed: int = 0) -> None:
        self._n_regroupings, self._seed = n_regroupings, seed
        self._fits: dict[bytes, NestedResult] = {}
        self._moved: dict[bytes, Scored] = {}

    def score(self, simulated: Simulated) -> ScoredSimulation:
        """Score one simulation; raises ValueError where `probes.skip_reason` gives a reason."""
        task_states, slot_states = simulated.task, simulated.slot
        task = self._nested(task_states, simulated)
        moved_key = _digest(task_states, slot_states, simulated.outcome)
        if moved_key not in self._moved:
            self._moved[moved_key] = moved_scores(
                task, lambda layer: task_states[:, layer], lambda layer: [slot_states[:, layer]]
            )
        return ScoredSimulation(
            simulated=simulated,
            task=task,
            slot=self._nested(slot_states, simulated),
            text=self._nested(simulated.text[:, None], simulated),
            moved=self._moved[moved_key],
        )

    def _nested(
        self, states: Float[np.ndarray, "item layer feature"], simulated: Simulated
    ) -> NestedResult:
        key = _digest(states, simulated.outcome, simulated.groups)
        if key not in self._fits:
            self._fits[key] = nested_ridge(
                [Candidate(str(layer), (states[:, layer],)) for layer in range(states.shape[1])],
                simulated.outcome,
                simulated.groups,
                n_regroupings=self._n_regroupings,
                seed=self._seed,
            )
        return self._fits[key]


def _digest(*arrays: np.ndarray) -> bytes:
    digest = blake2b()
    for array in arrays:
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()

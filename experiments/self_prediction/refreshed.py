"""Labels that follow the model while it is trained: every so many steps it acts anew, and what it does is the truth.

Training to foretell one's own behavior changes the behavior. With frozen labels the model is held to what it did
before; with these to what it does now.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Int

from experiments.behavior import LocalRunner, label_behavior
from experiments.records import append_rows, read_whole_rows
from experiments.self_prediction.labeled import Labeled
from hooks import Model


class RefreshedLabels:
    """Outcomes by step. An item whose new outcome cannot be told keeps the label that it had.

    What was observed is kept in `store`, so that a training that is picked up between two refreshes goes on with the
    labels of the last one. A training that starts at step 0 forgets what lies there.

    Args:
        model: as it stands when it is asked, adapters included.
        every: steps between two refreshes; the first labels, up to this step, are those given.
        store: JSON Lines, an object a refresh; None keeps nothing beyond this process.
        samples: completions a prompt, as `LocalRunner` has it.
        seed: of the samples.

    Raises:
        ValueError: `every` is not positive.
    """

    def __init__(
        self,
        model: Model,
        every: int,
        store: Path | None = None,
        *,
        samples: int = 1,
        seed: int = 0,
    ) -> None:
        if every < 1:
            raise ValueError(f"refresh_every: {every} is not positive; give a number of steps")
        self._model = model
        self._every = every
        self._store = store
        self._samples = samples
        self._seed = seed
        self._known: dict[int, list[list[int]]] | None = None

    def at(self, step: int, train: Labeled, validation: Labeled) -> tuple[Labeled, Labeled]:
        """Both parts with the labels that hold at a step.

        Raises:
            RuntimeError: the last refresh before this step was not kept.
        """
        if step == 0:
            self._forget()
        refresh = step // self._every * self._every
        if refresh == 0:
            return train, validation
        known = self._read()
        if refresh not in known:
            if refresh != step:
                raise RuntimeError(
                    f"labels: those of step {refresh} are lost; give a file to keep them in, or train from step 0"
                )
            known[refresh] = [self._observed(part).tolist() for part in (train, validation)]
            if self._store is not None:
                append_rows(self._store, [{"step": refresh, "outcomes": known[refresh]}])
        first, second = (np.array(outcome) for outcome in known[refresh])
        return train.relabeled(first), validation.relabeled(second)

    def _observed(self, part: Labeled) -> Int[np.ndarray, " item"]:
        """What the model does now."""
        run = LocalRunner(self._model, samples=self._samples, seed=self._seed)
        behavior = label_behavior(run, part.task, part.items)
        return np.array(
            [
                before if one.outcome is None else one.outcome
                for one, before in zip(behavior, part.outcome.tolist(), strict=True)
            ]
        )

    def _read(self) -> dict[int, list[list[int]]]:
        if self._known is None:
            rows = [] if self._store is None else read_whole_rows(self._store)
            self._known = {row["step"]: row["outcomes"] for row in rows}
        return self._known

    def _forget(self) -> None:
        self._known = {}
        if self._store is not None:
            self._store.unlink(missing_ok=True)

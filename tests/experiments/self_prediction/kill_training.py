"""Kills trainings with SIGKILL: `python -m tests.experiments.self_prediction.kill_training FOLDER N`.

Trains adapters of a tiny model to say what it will do: at one go into FOLDER/whole, and killed again and again into
FOLDER/killed, half the time at a random micro-batch and half the time at a random moment. Prints how often it was
killed and the steps that it went on from, and leaves the trained adapters in either folder.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from experiments.adapters import adapted
from experiments.self_prediction.checkpoints import read_checkpoint
from experiments.self_prediction.training import CHECKPOINT, TrainSettings, train
from experiments.self_prediction.verbal import SayIt
from tests.conftest import make_tiny_model
from tests.experiments.self_prediction.menu import QUESTION, labeled

SETTINGS = TrainSettings(steps=24, learning_rate=1e-2, evaluate_every=5, checkpoint_every=3)


class Deadly:
    """An objective that kills its process at a micro-batch."""

    def __init__(self, objective: SayIt, step: int | None, micro_batch: int) -> None:
        self._objective = objective
        self._at = (step, micro_batch)

    @property
    def parameters(self) -> Mapping[str, nn.Parameter]:
        return self._objective.parameters

    @property
    def metrics(self) -> Mapping[str, float]:
        return self._objective.metrics

    def losses(self, step: int) -> Iterator[Tensor]:
        for number, loss in enumerate(self._objective.losses(step)):
            yield loss
            if (step, number) == self._at:
                os.kill(os.getpid(), signal.SIGKILL)

    def validate(self) -> float:
        return self._objective.validate()


def train_tiny(folder: Path, step: int | None = None, micro_batch: int = 0) -> None:
    model = make_tiny_model("llama")
    with adapted(model, rank=2) as adapters:
        words = SayIt(
            model,
            labeled([1, 0, 0, 1, 1, 0, 1, 0]),
            labeled([0, 1, 1, 0], first=8),
            [QUESTION],
            parameters=adapters.parameters,
            batch=4,
            accumulate=2,
        )
        train(Deadly(words, step, micro_batch), SETTINGS, folder)
        adapters.save(folder / "adapters")


def main(root: Path, n_kills: int) -> None:
    torch.set_num_threads(1)  # a pool of threads does not survive a fork
    train_tiny(root / "warm")  # a first training takes longer than those that are killed
    start = time.perf_counter()
    train_tiny(root / "whole")
    whole_seconds = time.perf_counter() - start
    rng = random.Random(0)
    killed, picked_up = 0, set()
    while True:
        kept = read_checkpoint(root / "killed" / CHECKPOINT)
        done = kept.about["state"]["step"] if kept is not None else 0
        at_step = killed % 2 == 0
        child = os.fork()
        if child == 0:
            step = rng.randrange(done, SETTINGS.steps) if at_step and killed < n_kills else None
            train_tiny(root / "killed", step, killed // 2 % 2)
            if killed < n_kills:
                signal.pause()  # the kill is on its way
            os._exit(0)
        rng.random()
        if not at_step and killed < n_kills:
            time.sleep(rng.uniform(0, 0.5 * whole_seconds * (1 - done / SETTINGS.steps)))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0
            break
        killed += 1
        picked_up.add(done)
    print(json.dumps({"killed": killed, "picked_up": sorted(picked_up)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

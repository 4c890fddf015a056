"""Every method, from training items to predictions of what is tested: what one cell of a comparison does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from activations_cache import Cell as Site
from experiments.adapters import Adapters, adapted
from experiments.self_prediction.ability import Ability, measure_ability
from experiments.self_prediction.asking import ask, other_questions, trained_questions
from experiments.self_prediction.cells import Cell
from experiments.self_prediction.config import IMMATERIAL, TRAINS_TRUNK, TeachConfig
from experiments.self_prediction.diagnosis import diagnose, diagnose_trained
from experiments.self_prediction.frozen import FrozenHead
from experiments.self_prediction.heads import SelfPredictionHead, Shape, Target
from experiments.self_prediction.joint import JointHead
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.material import Material, Tests, held_out_of
from experiments.self_prediction.place import Place
from experiments.self_prediction.predicted import Predicted
from experiments.self_prediction.readers import read_by_probe, read_by_text
from experiments.self_prediction.refreshed import RefreshedLabels
from experiments.self_prediction.reinforcement import Reinforce
from experiments.self_prediction.training import Objective, Trained, TrainSettings, train
from experiments.self_prediction.verbal import SayIt
from hooks import Model, capture


@dataclass(frozen=True)
class Taught:
    """What a cell found.

    Attributes:
        predicted: by test.
        n_items: that were learned from, and stopped by.
        seconds: of training, or of fitting.
        place: where a probe or a head reads.
        trained: what `train` says of the steps; None of what takes none.
        ability: of the model as it then stands; None of what leaves it alone.
        diagnosis: where words lose the outcome; None where it was not asked for.
    """

    predicted: Mapping[str, Predicted]
    n_items: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    place: Site | None = None
    trained: Mapping[str, Any] | None = None
    ability: Ability | None = None
    diagnosis: Mapping[str, str | None] | None = None

    def to_json(self) -> dict[str, Any]:
        """The result file, without the cell's settings."""
        return {
            "predicted": {test: one.to_json() for test, one in self.predicted.items()},
            "n_train": self.n_items[0],
            "n_validation": self.n_items[1],
            "seconds": round(self.seconds, 3),
            "place": None if self.place is None else list(self.place),
            "trained": self.trained,
            "ability": None if self.ability is None else self.ability.to_json(),
            "diagnosis": None if self.diagnosis is None else dict(self.diagnosis),
        }


@dataclass(frozen=True)
class Teacher:
    """Does one cell.

    Args:
        config: of the comparison.
        cell: what to do.
        model: as it is, and as it is again afterwards.
        material: of all tasks.
        place: where the probe of the same labels reads; only heads need it.
        folder: for checkpoints and metrics.
    """

    config: TeachConfig
    cell: Cell
    model: Model
    material: Mapping[str, Material]
    place: Site | None
    folder: Path

    def teach(self) -> Taught:
        """Train where the method trains, and predict every test.

        Raises:
            ValueError: too few items of a class to learn from.
            RuntimeError: training broke down.
        """
        method = self.cell.method
        if method == "words":
            return Taught(
                self._said(),
                ability=measure_ability(self.model),
                diagnosis=self._diagnosis(partial(diagnose, self.config, self.config.model)),
            )
        train_part, validation = self._own.training(self.cell)
        n_items = len(train_part), len(validation)
        start = time.perf_counter()
        if method in ("probe", "text"):
            seen = train_part.joined(validation)
            place: Site | None
            if method == "probe":
                place, predicted = read_by_probe(self._own, seen, self._tests, self._seed)
            else:
                place = None
                predicted = read_by_text(seen, self._tests, self._seed)
            seconds = time.perf_counter() - start
            return Taught(predicted, n_items, seconds, place)
        if method == "head":
            return self._frozen_head(train_part, validation)
        return self._trained_trunk(train_part, validation)

    @property
    def _own(self) -> Material:
        return self.material[self.cell.task]

    @property
    def _seed(self) -> int:
        return self.config.seed + self.cell.seed

    @property
    def _tests(self) -> Tests:
        return held_out_of(self.material, self.cell.task)

    def _said(self) -> dict[str, Predicted]:
        """What the model says now, of every test; of the held-out groups by another wording too."""
        wordings = self.config.wordings
        said = {
            test: ask(self.model, items, trained_questions(items.task, wordings))
            for test, (_, items) in self._tests.items()
        }
        _, items = self._tests["held_out_groups"]
        return said | {
            "other_wording": ask(self.model, items, other_questions(items.task, wordings))
        }

    def _settings(self, steps: int, learning_rate: float) -> TrainSettings:
        config = self.config
        return TrainSettings(
            steps=steps,
            learning_rate=learning_rate,
            weight_decay=config.weight_decay,
            evaluate_every=config.evaluate_every,
            patience=config.patience,
            checkpoint_every=config.evaluate_every,
            precision=config.precision,
        )

    def _train(self, objective: Objective, settings: TrainSettings) -> Trained:
        config = self.config.model_dump(mode="json", exclude=set(IMMATERIAL))
        about = {"cell": self.cell.to_json(), "config": config}
        return train(objective, settings, self.folder, about=about)

    def _diagnosis(
        self, of: Callable[[Labeled, Path], Mapping[str, str | None]]
    ) -> Mapping[str, str | None] | None:
        """On all items that nothing was learned from; of the first seed with the true labels, for it takes long."""
        if not self.config.diagnosis or self.cell.labels not in ("none", "true") or self.cell.seed:
            return None
        parts = self._own.parts(self.cell.seed)
        items = parts.test
        if parts.other_templates is not None:
            items = items.joined(parts.other_templates)
        return of(items, self.folder / "diagnosis")

    def _frozen_head(self, train_part: Labeled, validation: Labeled) -> Taught:
        assert self.place is not None
        states = [self._own.states(self.place, part.ids) for part in (train_part, validation)]
        head = self._head()
        objective = FrozenHead(
            head,
            states[0],
            train_part.outcome[:, None].astype(np.float32),
            states[1],
            validation.outcome[:, None].astype(np.float32),
            seed=self._seed,
        )
        settings = self._settings(self.config.head_steps, self.config.head_learning_rate)
        trained = self._train(objective, settings)
        head.save(self.folder / "head")
        predicted = {
            test: self._read(head, of.states(self.place, items.ids))
            for test, (of, items) in self._tests.items()
        }
        return Taught(
            predicted,
            (len(train_part), len(validation)),
            trained.seconds,
            self.place,
            trained=asdict(trained),
        )

    def _trained_trunk(self, train_part: Labeled, validation: Labeled) -> Taught:
        assert self.cell.method in TRAINS_TRUNK
        head = None
        if self.place is not None:
            head = self._head()
            head.standardize(self._own.states(self.place, train_part.ids))
        with adapted(self.model, rank=self.config.rank, seed=self._seed) as adapters:
            objective = self._objective(adapters, head, train_part, validation)
            settings = self._settings(self.config.steps, self.config.learning_rate)
            trained = self._train(objective, settings)
            adapters.save(self.folder / "adapters")
            if head is None:
                predicted = self._said()
            else:
                head.bind(self.model)
                head.save(self.folder / "head")
                predicted = {
                    test: self._read(head, self._states_now(items))
                    for test, (_, items) in self._tests.items()
                }
            diagnosis = None
            if head is None:
                diagnosis = self._diagnosis(partial(diagnose_trained, self.config, adapters))
            ability = measure_ability(self.model)
        return Taught(
            predicted,
            (len(train_part), len(validation)),
            trained.seconds,
            self.place,
            trained=asdict(trained),
            ability=ability,
            diagnosis=diagnosis,
        )

    def _objective(
        self,
        adapters: Adapters,
        head: SelfPredictionHead | None,
        train_part: Labeled,
        validation: Labeled,
    ) -> Objective:
        config, method = self.config, self.cell.method
        questions = trained_questions(self._own.task, config.wordings)
        if method == "rl":
            return Reinforce(
                self.model,
                train_part,
                validation,
                questions,
                adapters.parameters,
                batch=config.batch,
                group=config.group,
                temperature=config.temperature,
                reward="format" if self.cell.labels == "format" else "score",
                accumulate=config.accumulate,
                seed=self._seed,
                refreshed=self._refreshed(),
            )
        words = None
        if method in ("sft", "joint_stop_gradient"):
            words = SayIt(
                self.model,
                train_part,
                validation,
                questions,
                parameters=adapters.parameters,
                batch=config.batch,
                accumulate=config.accumulate,
                seed=self._seed,
            )
        if method == "sft":
            assert words is not None
            return words
        assert head is not None
        return JointHead(
            self.model,
            head,
            adapters,
            train_part,
            validation,
            batch=config.batch,
            accumulate=config.accumulate,
            seed=self._seed,
            words=words,
            stop_gradient=method == "joint_stop_gradient",
        )

    def _refreshed(self) -> RefreshedLabels | None:
        every = self.config.refresh_every
        if every is None or self.cell.labels != "true":
            return None
        store = self.folder / "refreshed.jsonl"
        samples = self._own.task.min_samples
        return RefreshedLabels(self.model, every, store, samples=samples, seed=self.config.seed)

    def _head(self) -> SelfPredictionHead:
        assert self.place is not None
        shape = Shape(kind=self.config.head, seed=self._seed)
        return SelfPredictionHead.of(
            self.model, [Target(self.cell.task)], Place(*self.place), shape
        )

    def _read(self, head: SelfPredictionHead, states: np.ndarray) -> Predicted:
        start = time.perf_counter()
        probability = head.predict(torch.as_tensor(states))[self.cell.task]
        return Predicted.of_probability(probability, (time.perf_counter() - start) / len(states))

    def _states_now(self, items: Labeled) -> Float[np.ndarray, "item d_model"]:
        """Of the model with its adapters."""
        assert self.place is not None
        spec = Place(*self.place).spec
        rows: dict[str, np.ndarray] = {}
        for read in capture(self.model, [item.prompt() for item in items.items], spec):
            rows |= dict(zip(read.ids, read.sites[self.place[0]][:, 0, 0].numpy(), strict=True))
        return np.stack([rows[id] for id in items.ids])

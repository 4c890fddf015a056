"""Items whose outcome is known by construction, and states that hold it in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from activations_cache import Cell as Place
from experiments.self_prediction.config import TeachConfig, make_teach_config
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.material import Material
from experiments.tasks import Item
from tests.experiments.parity import ParityTask, register

PLANTED: Place = ("resid_post", 2, "prompt_last")
PLACES: tuple[Place, ...] = (("resid_post", 0, "prompt_last"), PLANTED, ("resid_post", 3, "x"))


def teach_config(**settings: object) -> TeachConfig:
    register()
    return make_teach_config({"tasks": ("parity",), "sizes": (1,), "seeds": 2, **settings})


def labeled_items(
    n_groups: int = 40,
    size: int = 3,
    *,
    cue: bool = False,
    strata: Sequence[str] = ("a", "b", "c"),
    seed: int = 0,
) -> Labeled:
    """Outcomes that are even within groups; with `cue` a word of the text gives them away."""
    rng = np.random.default_rng(seed)
    items, outcome = [], []
    for group in range(n_groups):
        for i in range(size):
            is_one = int(rng.random() < 0.5)
            word = ("river", "meadow")[is_one] if cue else "garden"
            filler = " ".join(rng.choice(["sun", "rain", "wind", "snow", "fog"], size=4))
            items.append(
                Item(
                    id=f"item-{group}-{i}",
                    task="parity",
                    group=f"group-{group}",
                    stratum=strata[group % len(strata)],
                    messages=({"role": "user", "content": f"{filler} {word}"},),
                )
            )
            outcome.append(is_one)
    return Labeled(ParityTask(), tuple(items), np.array(outcome))


@dataclass(frozen=True)
class PlantedMaterial(Material):
    """Noise everywhere, and the outcome along one direction at `PLANTED`."""

    def places(self) -> list[Place]:
        return list(PLACES)

    def states(self, place: Place, ids: list[str]) -> np.ndarray:
        truth = dict(zip(self.labeled.ids, self.labeled.outcome, strict=True))
        rows = []
        for id in ids:
            rng = np.random.default_rng([sum(map(ord, id)) * 7919 + len(id), PLACES.index(place)])
            row = rng.standard_normal(12)
            if place == PLANTED:
                row[3] += 4.0 * truth[id]
            rows.append(row)
        return np.array(rows, dtype=np.float32)


def planted_material(labeled: Labeled, **settings: object) -> PlantedMaterial:
    return PlantedMaterial(labeled, None, {}, (), teach_config(**settings))

"""What is intervened on: the scored items of a finished run, and the place at which its probe reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from activations_cache import ActivationsCache
from experiments.asked import asked_of
from experiments.behavior import Behavior
from experiments.causal.settings import CausalSettings
from experiments.config import RunConfig
from experiments.elicitation import Questions
from experiments.items import item_from_row
from experiments.records import read_rows
from experiments.run_folder import RunFolder
from experiments.tasks import Item, Task
from hooks import Model, Prompt, render
from hooks.positions import positions_of

_SITES = ("resid_post", "resid_pre")
MEAN = "mean_instruction"
"""Of a probe that reads the mean of the instruction; its direction is applied from the last of these tokens on."""


@dataclass(frozen=True)
class Place:
    """Where the residual stream is changed.

    Attributes:
        site, layer, position: where the run's probe reads.
        block: the block whose output is changed.
    """

    site: str
    layer: int
    position: str
    block: int

    @property
    def start(self) -> str:
        """The first position that is changed; from it to the end of the prompt every token is."""
        return "instruction_last" if self.position == MEAN else self.position

    def tail_of(self, model: Model, prompt: Prompt) -> tuple[str, ...]:
        """The names of the positions that are changed in a prompt, one a token, in the order of the tokens."""
        rendered = render(model, prompt)
        if self.start == "prompt_last":
            return ("prompt_last",)
        named = positions_of(rendered)
        # The last template token is the answer slot, which has two names.
        single = [
            name for name in named if name == "instruction_last" or name.startswith("template_")
        ]
        return tuple(single[single.index(self.start) :])


def place_of(probe: Mapping[str, Any], settings: CausalSettings, n_layers: int) -> Place:
    """The place of a task's probe, at another layer or position if the settings name one.

    Raises:
        ValueError: a site that is not the residual stream between blocks, or a layer that the model lacks.
    """
    site = probe["site"]
    if site not in _SITES:
        raise ValueError(
            f"site: the probe of this run reads {site}, and directions are applied to the residual stream; "
            "make a run with site resid_post"
        )
    layer = probe["layer"] if settings.layer is None else settings.layer
    first = int(site == "resid_pre")
    if not first <= layer < n_layers:
        raise ValueError(
            f"layer: {layer} does not exist at {site}; give one from {first} to {n_layers - 1}"
        )
    return Place(site, layer, settings.position or probe["position"], layer - first)


@dataclass(frozen=True)
class Subject:
    """The scored items of one task, and the states at the place.

    Attributes:
        alpha: the penalty of the run's probe.
        questions: what the run asks about every item.
    """

    task: Task
    config: RunConfig
    model: Model
    place: Place
    alpha: float
    items: tuple[Item, ...]
    outcome: Int[np.ndarray, " item"]
    groups: np.ndarray
    features: Float[np.ndarray, "item d_model"]
    questions: Questions

    @classmethod
    def read(
        cls,
        task: Task,
        folder: RunFolder,
        probe: Mapping[str, Any],
        model: Model,
        settings: CausalSettings,
    ) -> Subject:
        """Read the records of a run.

        Raises:
            ValueError: as `place_of`; the run did not capture the layer or the position.
        """
        config = folder.read_config()
        place = place_of(probe, settings, model.n_layers)
        rows = [Behavior.from_row(row) for row in read_rows(folder.behavior)]
        outcomes = {row.item: row.outcome for row in rows}
        items = [item_from_row(row) for row in read_rows(folder.items) if row["task"] == task.name]
        scored = tuple(item for item in items if outcomes[item.id] is not None)
        with ActivationsCache.open(folder.task_cache) as cache:
            _check_captured(cache, place)
            features = cache.read(
                place.site,
                layer=place.layer,
                position=place.position,
                ids=[item.id for item in scored],
            )
        return cls(
            task,
            config,
            model,
            place,
            probe["alpha"],
            scored,
            np.array([outcomes[item.id] for item in scored], dtype=np.int64),
            np.array([item.group for item in scored]),
            np.asarray(features, dtype=np.float64),
            asked_of(task, config),
        )


def _check_captured(cache: ActivationsCache, place: Place) -> None:
    cells = [cell for cell in cache.cells() if cell[0] == place.site]
    for name, index in (("layer", 1), ("position", 2)):
        captured = dict.fromkeys(cell[index] for cell in cells)
        if getattr(place, name) not in captured:
            raise ValueError(
                f"{name}: {getattr(place, name)!r} was not captured in {cache.path}; choose from "
                f"{', '.join(map(str, captured))}"
            )

"""A built organism, opened: the model beside what is known of it by construction."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.organisms.recipes import Bit, Recipe
from experiments.organisms.sentences import Sentence
from hooks import Model, load_model


@dataclass(frozen=True)
class Organism:
    """A built organism, loaded, with what is known of it by construction.

    Attributes:
        kind: the stage that is planted.
        model: loaded.
        recipe: what it was trained to do.
        layer: the block behind which the deciding bit is held, at the last token of a prompt.
        direction: a unit vector `[d_model]` along which the bit lies there, or None where none was planted.
        scale: the component along it is plus this for 1, minus this for 0.
    """

    kind: str
    model: Model
    recipe: Recipe
    layer: int
    direction: Float[Tensor, " d_model"] | None
    scale: float

    @classmethod
    def load(cls, folder: str | Path) -> Organism:
        """Open a folder that `build` made.

        Raises:
            ValueError: the folder holds no organism.
        """
        path = Path(folder) / "organism.json"
        if not path.is_file():
            raise ValueError(f"folder: {folder} holds no organism; give a folder that build() made")
        about = json.loads(path.read_text(encoding="utf-8"))
        direction = about.get("direction")
        return cls(
            kind=about["kind"],
            model=load_model(str(folder)),
            recipe=Recipe(**about["recipe"]),
            layer=about["layer"],
            direction=None if direction is None else torch.tensor(direction),
            scale=about.get("scale", math.nan),
        )

    def reads(self, said: str) -> Bit | None:
        """The bit that the reply or the report follows; None where the report cannot reach it."""
        if said == "reply":
            return self.recipe.decides
        return None if self.recipe.window is not None else self.recipe.reports

    def bits(self, sentences: Sequence[Sentence]) -> Int[np.ndarray, " item"]:
        """The bit that decides, of every sentence."""
        return np.array([getattr(sentence, self.recipe.decides) for sentence in sentences])

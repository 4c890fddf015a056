"""What a sweep is asked for: every setting has one value or a list of them, and a cell is one choice of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.config import RunConfig, make_config, one_line
from experiments.runnable import RUNNABLE
from experiments.tasks import TASKS, Task
from probes import ProbeKind

Context = Literal["task", "self_prediction"]


RUN_SETTINGS = (
    "n",
    "items",
    "seed",
    "dtype",
    "samples",
    "site",
    "layers",
    "positions",
    "paraphrases",
    "folds",
    "regroupings",
    "permutations",
)
"""The settings of a run that a sweep takes as they are, beside `model` and `task`."""

MOST_CELLS = 20_000
"""Of one sweep: its table and folder can still be read, and a list that went wrong is known at once."""

HELD_LISTS = ("layers", "positions")
"""Settings whose one value is a list: there a list of lists is the grid."""


class Analysis(BaseModel):
    """What a sweep may ask for beside the settings of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    context: Context = "task"
    """Whose activations are probed: those of the prompt, or of the answer slot of the self-predictions."""
    probe: ProbeKind = "ridge"


SETTINGS = ("model", "task", *Analysis.model_fields, *RUN_SETTINGS)
"""All that a sweep may set."""


@dataclass(frozen=True)
class Cell:
    """One model, task, context, probe and seed, with every other setting: a row of the sweep's table."""

    config: RunConfig
    """With exactly one task."""
    analysis: Analysis
    task: type[Task] = field(compare=False)
    """The class behind the task's name; it travels with the cell, so that a worker knows a task of the user's own."""

    @property
    def settings(self) -> dict[str, Any]:
        """All settings that a result may depend on, defaults filled in, as JSON holds them.

        The items file is named by its sha256: where it lies is no setting.
        """
        held = self.config.model_dump(mode="json", include={"model", "items_sha256", *RUN_SETTINGS})
        del held["items"]
        return {
            "model": held.pop("model"),
            "task": self.task.name,
            **self.analysis.model_dump(),
            **held,
        }


def make_cells(settings: Mapping[str, Any]) -> list[Cell]:
    """The cells of a sweep, in the order of the lists, the first setting of `SETTINGS` slowest; equal ones once.

    Args:
        settings: a name of `SETTINGS` -> a value or a list of values; for `HELD_LISTS`, whose value may be a list
            itself, a list of lists.

    Raises:
        ValueError: an unknown or missing setting, an empty list, a value out of range, or too many cells; one line
            names it.
    """
    for name in settings:
        if name not in SETTINGS:
            raise ValueError(
                f"{name}: no such setting of a sweep; allowed are {', '.join(SETTINGS)}"
            )
    for name in ("model", "task"):
        if name not in settings:
            raise ValueError(f"{name}: a sweep needs at least one; give a name or a list of names")
    given = [name for name in SETTINGS if name in settings]
    values = [_values(name, settings[name]) for name in given]
    n_cells = math.prod(map(len, values))
    if n_cells > MOST_CELLS:
        name, longest = max(zip(given, values, strict=True), key=lambda pair: len(pair[1]))
        raise ValueError(
            f"{name}: {len(longest)} values make a grid of {n_cells:,} cells; at most {MOST_CELLS:,} are one sweep, "
            "give shorter lists"
        )
    choices = product(*values)
    cells = (_make_cell(dict(zip(given, chosen, strict=True))) for chosen in choices)
    return list(dict.fromkeys(cells))


def _values(name: str, given: Any) -> list[Any]:
    if not isinstance(given, list):
        return [given]
    if not given:
        raise ValueError(f"{name}: the list is empty; give at least one value")
    if name in HELD_LISTS and not any(isinstance(value, list) for value in given):
        return [given]
    return given


def _make_cell(chosen: dict[str, Any]) -> Cell:
    analysis = {name: chosen.pop(name) for name in Analysis.model_fields if name in chosen}
    task = chosen.pop("task")
    if isinstance(chosen.get("items"), str):
        chosen["items"] = Path(chosen["items"]).absolute()  # a worker may begin in another folder
    for name, value in (("model", chosen["model"]), ("task", task)):
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{name}: must be a name or a list of names (given: {value!r:.60})")
    try:
        analyzed = Analysis(**analysis)
    except ValidationError as error:
        raise ValueError(one_line(error)) from None
    if task not in RUNNABLE:
        raise ValueError(f"task: unknown {task!r}; `selfprobe tasks` lists {', '.join(TASKS)}")
    return Cell(make_config({"tasks": [task], **chosen}), analyzed, RUNNABLE[task])

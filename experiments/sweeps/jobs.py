"""What has to be computed for the cells of a sweep, so that nothing is computed twice.

A *source* is all that needs the model: behavior, activations, self-predictions. Cells that differ in context, probe
or folds share it. A *text* is what the text alone says, a *null* the permutation test; cells that differ in the probe
share both. A job is named by a hash of the settings that its result depends on, and of nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from experiments.config import RunConfig
from experiments.sweeps.cells import Cell

Kind = Literal["source", "text", "null", "cell"]

SCHEMA = 1
"""Part of every name; raised when a job comes to mean something else, so that old results are not taken for new."""

_BEHAVIOR = ("model", "task", "n", "items_sha256", "dtype", "samples")
_SOURCE = (*_BEHAVIOR, "site", "layers", "positions", "paraphrases")
_FOLDS = ("folds", "regroupings", "seed")
_NULL = (*_SOURCE, *_FOLDS, "context", "permutations")
DEPENDS_ON: dict[Kind, tuple[str, ...]] = {
    "source": _SOURCE,
    "text": (*_BEHAVIOR, *_FOLDS),
    "null": _NULL,
    "cell": (*_NULL, "probe"),
}


@dataclass(frozen=True)
class Job:
    """A piece of work that one worker does whole; jobs of one name are the same."""

    kind: Kind
    cell: Cell
    """Any of the cells that need it."""

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings that the result depends on; greedy answers depend on no seed, sampled ones do."""
        every = self.cell.settings
        settings = {name: every[name] for name in DEPENDS_ON[self.kind]}
        if self.kind == "source":
            settings["seed"] = self.config.seed
        return settings

    @property
    def config(self) -> RunConfig:
        """The cell's settings; for a source with what it does not depend on at its default."""
        config = self.cell.config
        if self.kind != "source":
            return config
        defaults = RunConfig(tasks=config.tasks)
        free = ("folds", "regroupings", "permutations") + (("seed",) if config.samples == 1 else ())
        return config.model_copy(update={name: getattr(defaults, name) for name in free})

    @cached_property
    def name(self) -> str:
        """16 hexadecimal digits of the sha256 of kind and settings; the order of keys does not matter."""
        told = json.dumps([SCHEMA, self.kind, self.settings], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(told.encode("ascii")).hexdigest()[:16]

    def of(self, kind: Kind) -> Job:
        """The job of another kind that the same cell needs."""
        return Job(kind, self.cell)


def waves(cells: Iterable[Cell]) -> list[list[Job]]:
    """Jobs of three waves, each of which needs the ones before it alone; every job once, sources grouped by model."""
    needed = [Job("cell", cell) for cell in cells]
    sources = _once(job.of("source") for job in needed)
    models = list(dict.fromkeys(job.config.model for job in sources))
    return [
        sorted(sources, key=lambda job: models.index(job.config.model)),
        _once(job.of(kind) for job in needed for kind in ("text", "null")),
        needed,
    ]


def _once(jobs: Iterable[Job]) -> list[Job]:
    return list({job.name: job for job in jobs}.values())

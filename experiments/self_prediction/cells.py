"""The cells of a comparison: a task, a method, labels, a size and a seed, each with a result of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from experiments.self_prediction.config import CONTROLS, TRAINS_TRUNK, Method, TeachConfig

Labels = Literal["none", "true", "shuffled", "peer", "format"]
"""What was learned from; "none" of what was not trained."""


@dataclass(frozen=True)
class Cell:
    """One training, or one reading of what needs none."""

    task: str
    method: Method
    labels: Labels = "true"
    size: int = 1
    seed: int = 0

    @property
    def name(self) -> str:
        """Of its result file."""
        return f"{self.task}/{self.method}-{self.labels}-x{self.size}-seed{self.seed}"

    @property
    def probe(self) -> Cell:
        """The probe that was fitted to the same labels: a head sits where it reads."""
        labels: Labels = "true" if self.labels == "format" else self.labels
        return Cell(self.task, "probe", labels, self.size, self.seed)

    def to_json(self) -> dict[str, Any]:
        """Its settings."""
        return asdict(self)


def plan_cells(config: TeachConfig) -> list[Cell]:
    """All cells, in an order in which a probe comes before the heads that sit where it reads."""
    cells = []
    for task in config.tasks:
        if "words" in config.methods:
            cells.append(Cell(task, "words", "none"))
        trained = [method for method in config.methods if method != "words"]
        for seed in range(config.seeds):
            for size in config.sizes:
                cells += [Cell(task, method, "true", size, seed) for method in trained]
            cells += [
                Cell(task, method, labels, 1, seed)
                for labels in CONTROLS
                if labels in config.all_controls
                for method in trained
                if _is_controlled(method, labels, seed, config)
            ]
    return sorted(cells, key=lambda cell: cell.method != "probe")


def _is_controlled(method: Method, labels: Labels, seed: int, config: TeachConfig) -> bool:
    if labels == "format" and method != "rl":
        return False
    seeds = config.seeds if config.control_seeds is None else config.control_seeds
    return method not in TRAINS_TRUNK or seed < seeds

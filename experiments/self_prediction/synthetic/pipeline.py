"""Made items of a task whose outcome is known: drawn, run, verified, balanced, deduplicated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.progress import Reporter
from experiments.self_prediction.labeled import Labeled
from experiments.tasks import Item, Task
from hooks import Model


@dataclass(frozen=True)
class Synthesized:
    """Items with their outcomes, in an order of which any prefix is balanced, and the data card."""

    labeled: Labeled
    card: Mapping[str, Any]


def synthesize(
    task: Task,
    model: Model,
    n: int,
    folder: Path,
    *,
    exclude: Sequence[Item] = (),
    seed: int = 0,
    reporter: Reporter | None = None,
) -> Synthesized:
    """Make `n` items of a task, half of each outcome where there are enough."""
    raise NotImplementedError

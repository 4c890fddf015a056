"""One training loop for everything that is taught: heads, trunks with adapters, words by examples or by reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from experiments.progress import Reporter

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class TrainSettings:
    """Of the loop and its optimizer: AdamW, a tenth of the steps warm-up, then linear decay."""

    steps: int = 200
    learning_rate: float = 5e-4
    weight_decay: float = 0.0
    evaluate_every: int = 10
    """Steps between two validations; there is one before the first step and one after the last."""
    patience: int | None = None
    """Validations without progress after which training stops; None goes through all steps."""
    checkpoint_every: int = 20
    """Steps between two checkpoints."""
    precision: Precision = "float32"
    """Of products; weights and sums stay as they are."""
    seed: int = 0


class Objective(Protocol):
    """What is trained, on what, and when it is good."""

    @property
    def parameters(self) -> Mapping[str, nn.Parameter]:
        """What is trained, by name."""
        ...

    @property
    def metrics(self) -> Mapping[str, float]:
        """Numbers of the last step that are written beside its loss; may be empty."""
        ...

    def losses(self, step: int) -> Iterator[Tensor]:
        """The micro-batches of a step (the first is 0), scaled so that their sum is its loss; backward after each."""
        ...

    def validate(self) -> float:
        """How bad it is now, lower is better; called without gradients."""
        ...


@dataclass(frozen=True)
class Trained:
    """How a training went.

    Attributes:
        steps: that were done.
        best_step: after how many of them validation was best; 0 is before the first. Those parameters are in place.
        best_loss: of that validation.
        stopped_early: whether patience ran out.
        seconds: in all, also of processes that were killed, up to their last checkpoints.
        seconds_per_step: without validation and checkpoints.
        peak_memory: bytes on the GPU; None on the CPU.
    """

    steps: int
    best_step: int
    best_loss: float
    stopped_early: bool
    seconds: float
    seconds_per_step: float
    peak_memory: int | None


def train(
    objective: Objective,
    settings: TrainSettings,
    folder: Path | None = None,
    *,
    about: Mapping[str, Any] | None = None,
    tensorboard: bool = False,
    reporter: Reporter | None = None,
) -> Trained:
    """Train, and leave the parameters that validated best in place."""
    raise NotImplementedError

"""One training loop for everything that is taught: heads, trunks with adapters, words by examples or by reward.

All that is random in a step depends on seeds and the number of the step, so that a checkpoint holds no generator, and a
training that was killed ends, on one machine and thread count of a CPU, with the bits that it would have ended with.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from experiments.optimizer import WarmedUpAdamW
from experiments.progress import Reporter, Silent
from experiments.records import make_folder
from experiments.self_prediction.checkpoints import (
    Checkpoint,
    check_same,
    parted,
    read_checkpoint,
    write_checkpoint,
)
from experiments.self_prediction.training_log import TrainingLog, check_tensorboard

Precision = Literal["float32", "bfloat16"]
CHECKPOINT = "checkpoint.safetensors"
"""In the folder of a training."""


@dataclass(frozen=True)
class TrainSettings:
    """Of the loop and its optimizer: AdamW, a tenth of the steps warm-up, then linear decay.

    Raises:
        ValueError: a number out of range.
    """

    steps: int = 200
    learning_rate: float = 5e-4
    weight_decay: float = 0.0
    evaluate_every: int = 10
    """Steps between two validations; there is one before the first step and one after the last."""
    patience: int | None = None
    """Validations without progress after which training stops; None goes through all steps."""
    checkpoint_every: int = 20
    """Steps between two checkpoints; may differ when a training is picked up."""
    precision: Precision = "float32"
    """Of products; weights and sums stay as they are."""

    def __post_init__(self) -> None:
        for name in ("steps", "evaluate_every", "patience", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: {value} is not positive; give at least 1")
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise ValueError(f"learning_rate: {self.learning_rate} is not a positive number")
        if not (self.weight_decay >= 0 and math.isfinite(self.weight_decay)):
            raise ValueError(f"weight_decay: {self.weight_decay} is negative or no number")
        if self.precision not in ("float32", "bfloat16"):
            raise ValueError(f"precision: {self.precision!r}; choose float32 or bfloat16")


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
        """The micro-batches of a step (the first is 0), scaled so that their sum is its loss; backward after each.

        What is random may depend on nothing but seeds and `step`.
        """
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
        seconds_per_step: without validations and checkpoints.
        peak_memory: bytes on the GPU, of the process that ended the training; None on the CPU.
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
    """Train, and leave the parameters that validated best in place.

    A training that was killed goes on from its last checkpoint; one that is done is not done again.

    Args:
        objective: what to train.
        settings: how.
        folder: for the checkpoint and `metrics.jsonl`, made if need be; None keeps nothing.
        about: what else the result depends on (model, items, batch, seeds), as JSON has it: a checkpoint of another
            is refused.
        tensorboard: whether metrics go to `folder/tensorboard` as well.
        reporter: shows how far it is, and the time left.

    Raises:
        ValueError: before any work: nothing to train, a folder that cannot be written to, a damaged checkpoint or one
            of another training, or TensorBoard that is not installed.
        RuntimeError: a loss or gradient that is NaN or infinite, or too little memory; names the step.
        OSError: a checkpoint could not be written; the one before is as it was.
    """
    if not objective.parameters:
        raise ValueError("parameters: there are none to train")
    if tensorboard:
        check_tensorboard(folder)
    if folder is not None:
        make_folder("folder", folder)
    loop = _Loop(objective, settings, folder, about or {})
    loop.pick_up()
    log = TrainingLog(folder, loop.state.step, tensorboard=tensorboard)
    with (reporter or Silent()).stage("training", settings.steps) as advance:
        advance(loop.state.step)
        while not loop.state.finished:
            loop.go_on(log)
            advance(1)
    return loop.end()


@dataclass(frozen=True)
class _State:
    """Where a training stands, as far as it is no tensor."""

    step: int = 0
    best_step: int = 0
    best_loss: float | None = None
    """None before the first validation."""
    stale: int = 0
    """Validations since the best."""
    finished: bool = False
    stopped_early: bool = False
    seconds: float = 0.0
    step_seconds: float = 0.0
    peak_memory: int | None = None


class _Loop:
    """A training between its beginning and its end."""

    def __init__(
        self,
        objective: Objective,
        settings: TrainSettings,
        folder: Path | None,
        about: Mapping[str, Any],
    ) -> None:
        self.state = _State()
        self._objective = objective
        self._settings = settings
        self._path = None if folder is None else folder / CHECKPOINT
        self._parameters = dict(objective.parameters)
        self._device = next(iter(self._parameters.values())).device
        self._best: dict[str, Tensor] = {}
        self._optimizer = WarmedUpAdamW(
            list(self._parameters.values()),
            steps=settings.steps,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
        )
        own = asdict(settings)
        del own["checkpoint_every"]
        shapes = {
            name: [list(parameter.shape), str(parameter.dtype)]
            for name, parameter in self._parameters.items()
        }
        self._identity = {**own, "about": dict(about), "parameters": shapes}
        self._clock = time.perf_counter()
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)

    def pick_up(self) -> None:
        """Go to where the last checkpoint stands, if there is one."""
        kept = None if self._path is None else read_checkpoint(self._path)
        if kept is None:
            return
        assert self._path is not None
        check_same(self._path, kept.about["training"], self._identity)
        self.state = _State(**kept.about["state"])
        self._best = kept.part("best")
        self._put(self._best if self.state.finished else kept.part("now"))
        self._optimizer.restore(kept.part("optimizer"), self.state.step)

    def go_on(self, log: TrainingLog) -> None:
        """One step, what is due after it, and before the first a validation."""
        settings = self._settings
        if self.state.best_loss is None:
            self._validate(log)
        self._step(log)
        last = self.state.step == settings.steps
        if last or self.state.step % settings.evaluate_every == 0:
            self._validate(log)
        out_of_patience = settings.patience is not None and self.state.stale >= settings.patience
        if last or out_of_patience:
            self.state = replace(
                self.state,
                finished=True,
                stopped_early=not last,
                peak_memory=self._peak_memory(),
            )
            self._put(self._best)
        if self.state.finished or self.state.step % settings.checkpoint_every == 0:
            log.flush()
            self._keep()

    def end(self) -> Trained:
        """What came out."""
        state = self.state
        assert state.best_loss is not None
        return Trained(
            steps=state.step,
            best_step=state.best_step,
            best_loss=state.best_loss,
            stopped_early=state.stopped_early,
            seconds=state.seconds,
            seconds_per_step=state.step_seconds / state.step,
            peak_memory=state.peak_memory,
        )

    def _step(self, log: TrainingLog) -> None:
        number, start = self.state.step + 1, time.perf_counter()
        learning_rate = self._optimizer.learning_rate
        with self._explained(number):
            total = 0.0
            micro_batches = self._objective.losses(self.state.step)
            while True:
                with self._autocast():
                    loss = next(micro_batches, None)
                if loss is None:
                    break
                total += _finite("the loss", float(loss.detach()))
                loss.backward()  # type: ignore[no-untyped-call]
            norm = self._optimizer.step()
        seconds = time.perf_counter() - start
        self.state = replace(
            self.state, step=number, step_seconds=self.state.step_seconds + seconds
        )
        log.write(
            number,
            {
                "loss": total,
                "gradient_norm": norm,
                "learning_rate": learning_rate,
                "seconds": seconds,
                **self._objective.metrics,
            },
        )

    def _validate(self, log: TrainingLog) -> None:
        with self._explained(self.state.step), torch.no_grad(), self._autocast():
            loss = _finite("the validation loss", self._objective.validate())
        log.write(self.state.step, {"validation_loss": loss})
        if self.state.best_loss is not None and loss >= self.state.best_loss:
            self.state = replace(self.state, stale=self.state.stale + 1)
            return
        self.state = replace(self.state, best_step=self.state.step, best_loss=loss, stale=0)
        self._best = self._now()

    def _keep(self) -> None:
        """Write a checkpoint; of a training that is done, what came out alone."""
        now = time.perf_counter()
        self.state = replace(self.state, seconds=self.state.seconds + now - self._clock)
        self._clock = now
        if self._path is None:
            return
        parts: dict[str, Mapping[str, Tensor]] = {"best": self._best}
        if not self.state.finished:
            parts |= {"now": self._now(), "optimizer": self._optimizer.state()}
        about = {"training": self._identity, "state": asdict(self.state)}
        write_checkpoint(self._path, Checkpoint(parted(**parts), about))

    def _now(self) -> dict[str, Tensor]:
        return {
            name: parameter.detach().to("cpu", copy=True)
            for name, parameter in self._parameters.items()
        }

    def _put(self, values: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(values[name])

    def _autocast(self) -> torch.autocast:
        enabled = self._settings.precision == "bfloat16"
        return torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=enabled)

    def _peak_memory(self) -> int | None:
        if self._device.type != "cuda":
            return None
        return int(torch.cuda.max_memory_allocated(self._device))

    @contextmanager
    def _explained(self, step: int) -> Iterator[None]:
        """Name the step in what goes wrong, and what to do about it."""
        try:
            yield
        except FloatingPointError as error:
            raise RuntimeError(
                f"training: at step {step} {error}; lower learning_rate, or give precision float32"
            ) from error
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            raise RuntimeError(
                f"training: step {step} does not fit into the memory of {self._device.type}; "
                "raise accumulate, lower batch, or give precision bfloat16"
            ) from error


def _finite(what: str, value: float) -> float:
    if not math.isfinite(value):
        raise FloatingPointError(f"{what} is {value}")
    return value


def _is_out_of_memory(error: Exception) -> bool:
    # On the CPU PyTorch has no class of its own for it.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        "DefaultCPUAllocator" in str(error)
    )

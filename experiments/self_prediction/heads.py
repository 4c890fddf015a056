"""A small network on one state of the model that foretells what the model will do.

The head reads the residual stream at one place while the prompt is read, before any token of the answer exists. Its
input is standardized by what its training states were like, so that no dimension weighs more for being large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from experiments.self_prediction.attach import Served, attach
from experiments.self_prediction.place import Place
from hooks import Model

Kind = Literal["linear", "mlp"]
TargetKind = Literal["binary", "number"]


@dataclass(frozen=True)
class Target:
    """Something to foretell.

    Attributes:
        name: of the column of labels, and of the prediction.
        kind: a "binary" event, whose label is 0, 1 or a rate in between; or a "number" in any unit.
    """

    name: str
    kind: TargetKind = "binary"

    def __post_init__(self) -> None:
        if self.kind not in ("binary", "number"):
            raise ValueError(f"kind: {self.kind!r} of target {self.name!r}; use binary or number")


@dataclass(frozen=True)
class Shape:
    """Of a head's network.

    Attributes:
        kind: "linear", or "mlp" with one hidden layer.
        hidden: units of the hidden layer.
        shared: whether all targets are read off one hidden layer, or each off one of its own.
        seed: of the hidden layer's first weights; what is read off it begins at zero.
    """

    kind: Kind = "linear"
    hidden: int = 64
    shared: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("linear", "mlp"):
            raise ValueError(f"kind: {self.kind!r} is no head; use linear or mlp")
        if self.hidden < 1:
            raise ValueError(f"hidden: {self.hidden} is not positive")


class SelfPredictionHead(nn.Module):
    """Foretells targets from the state at a place.

    Args:
        targets: with different names.
        place: what it reads.
        d_model: width of the states.
        shape: of the network.

    Attributes:
        fingerprint: of the model whose states it reads; None until `bind`.

    Raises:
        ValueError: no target, or one name twice.
    """

    mean: Float[Tensor, " d_model"]
    scale: Float[Tensor, " d_model"]
    center: Float[Tensor, " target"]
    spread: Float[Tensor, " target"]
    _is_number: Bool[Tensor, " target"]

    def __init__(
        self, targets: Sequence[Target], place: Place, d_model: int, shape: Shape | None = None
    ) -> None:
        super().__init__()
        names = [target.name for target in targets]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"targets: {names}; give at least one, and each name once")
        self.targets = tuple(targets)
        self.place = place
        self.d_model = d_model
        self.shape = shape or Shape()
        self.fingerprint: Mapping[str, Any] | None = None
        self.networks = nn.ModuleList(_networks(len(names), d_model, self.shape))
        self.register_buffer("mean", torch.zeros(d_model))
        self.register_buffer("scale", torch.ones(d_model))
        self.register_buffer("center", torch.zeros(len(names)))
        self.register_buffer("spread", torch.ones(len(names)))
        self.register_buffer(
            "_is_number", torch.tensor([t.kind == "number" for t in targets]), persistent=False
        )

    @classmethod
    def of(
        cls, model: Model, targets: Sequence[Target], place: Place, shape: Shape | None = None
    ) -> Self:
        """A head for a model, on its device and bound to it.

        Raises:
            ValueError: as the constructor, or a site or layer that the model lacks.
        """
        head = cls(targets, place.of(model), model.d_model, shape).to(model.device)
        head.bind(model)
        return head

    def bind(self, model: Model) -> None:
        """Take the model's fingerprint as it is now: after the trunk below the head was trained, once more."""
        self.fingerprint = model.fingerprint

    def standardize(
        self,
        states: Float[Tensor, "row d_model"] | Float[np.ndarray, "row d_model"],
        labels: Float[Tensor, "row target"] | Float[np.ndarray, "row target"] | None = None,
    ) -> None:
        """Set the units of states, and of the targets that are numbers, to those of the training rows.

        Raises:
            ValueError: states of another width, or labels of another number of targets.
        """
        values = torch.as_tensor(states)
        self._check_width(values)
        self.mean.copy_(values.double().mean(dim=0))
        self.scale.copy_(_nonzero(values.double().std(dim=0, correction=0)))
        if labels is None:
            return
        given = torch.as_tensor(labels).double()
        self._check_labels(given, len(values))
        for index, target in enumerate(self.targets):
            known = given[:, index][~given[:, index].isnan()]
            if target.kind == "number" and len(known):
                self.center[index] = known.mean()
                self.spread[index] = _nonzero(known.std(correction=0))

    def forward(self, states: Float[Tensor, "row d_model"]) -> Float[Tensor, "row target"]:
        """Logits of binary targets; numbers in units of their spread around their mean.

        Raises:
            ValueError: states of another width.
        """
        self._check_width(states)
        standard = (states.to(self.mean) - self.mean) / self.scale
        return torch.cat([network(standard) for network in self.networks], dim=-1)

    def loss(
        self, states: Float[Tensor, "row d_model"], labels: Float[Tensor, "row target"]
    ) -> Float[Tensor, ""]:
        """Mean over the known labels: cross entropy of binary targets, squared error of numbers in units of variance.

        Args:
            states: a row an item.
            labels: NaN where unknown, as of items that belong to another task. Where none is known, the loss is 0.

        Raises:
            ValueError: states of another width, or labels of another shape.
        """
        self._check_labels(labels, len(states))
        logits = self(states).float()
        known = ~labels.isnan()
        wanted = (labels.nan_to_num().to(logits) - self.center) / self.spread
        entropy = nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        losses = torch.where(self._is_number, (logits - wanted) ** 2, entropy)
        return torch.where(known, losses, 0.0).sum() / known.sum().clamp_min(1)

    def predict(
        self, states: Float[Tensor, "row d_model"] | Float[np.ndarray, "row d_model"]
    ) -> dict[str, Float[np.ndarray, " row"]]:
        """By target: the probability, or the number in its own unit.

        Raises:
            ValueError: states of another width.
        """
        with torch.no_grad():
            logits = self(torch.as_tensor(states)).float()
            found = torch.where(
                self._is_number, logits * self.spread + self.center, logits.sigmoid()
            )
        columns = found.cpu().numpy()
        return {target.name: columns[:, i] for i, target in enumerate(self.targets)}

    def attach(self, model: Model) -> AbstractContextManager[Served]:
        """Serve predictions while the model reads prompts; see `attach`."""
        return attach(self, model)

    def save(self, stem: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Write `stem`.safetensors and `stem`.json; see `save_head`."""
        from experiments.self_prediction.head_files import save_head

        save_head(self, stem, about)

    @classmethod
    def load(cls, stem: str | Path, model: Model | None = None) -> SelfPredictionHead:
        """A head that was saved as `stem`; see `load_head`."""
        from experiments.self_prediction.head_files import load_head

        return load_head(stem, model)

    def _check_width(self, states: Tensor) -> None:
        if states.ndim != 2 or states.shape[1] != self.d_model:
            raise ValueError(
                f"states: shape {tuple(states.shape)}, the head reads (row, {self.d_model})"
            )

    def _check_labels(self, labels: Tensor, n_rows: int) -> None:
        if tuple(labels.shape) != (n_rows, len(self.targets)):
            raise ValueError(
                f"labels: shape {tuple(labels.shape)}, not ({n_rows}, {len(self.targets)}): "
                "give a row a state and a column a target, NaN where unknown"
            )


def _networks(n_targets: int, d_model: int, shape: Shape) -> list[nn.Module]:
    """One network for all targets, or one a target."""
    if shape.kind == "linear":
        return [_zero(nn.Linear(d_model, n_targets))]
    generator = torch.Generator().manual_seed(shape.seed)
    outputs = [n_targets] if shape.shared else [1] * n_targets
    return [
        nn.Sequential(
            _drawn(nn.Linear(d_model, shape.hidden), generator),
            nn.GELU(),
            _zero(nn.Linear(shape.hidden, n_outputs)),
        )
        for n_outputs in outputs
    ]


def _zero(layer: nn.Linear) -> nn.Linear:
    """An untrained head thus foretells 0.5, or the mean."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _drawn(layer: nn.Linear, generator: torch.Generator) -> nn.Linear:
    nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def _nonzero(deviation: Tensor) -> Tensor:
    """What does not vary is left in its unit."""
    return torch.where(deviation > 0, deviation, 1.0)

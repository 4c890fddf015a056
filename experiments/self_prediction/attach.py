"""A head beside a model at work: its predictions come with the pass that reads the prompts, and no second one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hooks import Activations, CaptureSpec, Model

if TYPE_CHECKING:
    from experiments.self_prediction.heads import SelfPredictionHead

IMMATERIAL = ("name", "revision", "dtype", "attention")
"""Of a fingerprint: where the same weights came from, and how sums over them are rounded."""


@dataclass
class Served:
    """What an attached head has foretold.

    Attributes:
        predictions: by prompt id and target; of a prompt that is read twice, the last.
    """

    predictions: dict[str, dict[str, float]] = field(default_factory=dict)


@contextmanager
def attach(head: SelfPredictionHead, model: Model) -> Iterator[Served]:
    """Let a head read what the model reads inside the block.

    Every prompt that `capture`, `option_logprobs` or `generate` reads is foretold in the pass that reads it, as it is
    then: under the interventions that are active. A bare call of the module has no named positions and is let go by.

    Raises:
        ValueError: the head belongs to another model or to none; later, by what reads a prompt, that it lacks the
            head's position.
    """
    check_belongs(head.fingerprint, model, "head")
    reader = _Reader(head, head.place.of(model).spec)
    with model.attached(reader):
        yield reader.served


class _Reader:
    """What a model is given to hand over states to."""

    def __init__(self, head: SelfPredictionHead, spec: CaptureSpec) -> None:
        self.spec = spec
        self.served = Served()
        self._head = head

    def receive(self, states: Activations) -> None:
        """Foretell a batch."""
        (site,) = self.spec.sites
        found = self._head.predict(states.sites[site][:, 0, 0])
        for row, id in enumerate(states.ids):
            self.served.predictions[id] = {
                target: float(values[row]) for target, values in found.items()
            }


def check_belongs(fingerprint: Mapping[str, Any] | None, model: Model, what: str) -> None:
    """Raise ValueError where a fingerprint is not that of a model, or there is none.

    The name, the precision and the attention implementation may differ: they change no more than the rounding.
    """
    if fingerprint is None:
        raise ValueError(f"{what}: belongs to no model; call bind(model) with the one it reads")
    there = model.fingerprint
    names = sorted({*fingerprint, *there} - {*IMMATERIAL})
    if others := [name for name in names if fingerprint.get(name) != there.get(name)]:
        raise ValueError(
            f"{what}: belongs to model {fingerprint.get('name')!r}, not to {model.name!r} "
            f"(other {', '.join(others)}); load that model, or train a head on this one"
        )

"""Ways to run a model and read its states, behind one protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from jaxtyping import Float
from torch import Tensor

from hooks.activations import CaptureSpec
from hooks.batching import Batch

if TYPE_CHECKING:
    from hooks.model import Model

# Imported when asked for, so that one broken library never stops the others.
BACKENDS: Mapping[str, str] = {
    "torch": "hooks.backends.torch",
    "transformer_lens": "hooks.backends.transformer_lens",
    "nnsight": "hooks.backends.nnsight",
}


@dataclass(frozen=True)
class States:
    """What a backend reads out of one batch: float32 tensors on the model's device.

    Attributes:
        sites: per site the states.
        slot_logits: the next-token logits at every prompt's last token, on the model's device;
            None unless asked for.
    """

    sites: Mapping[str, Float[Tensor, "item layer position d_model"]]
    slot_logits: Float[Tensor, "item vocabulary"] | None = None


class Backend(Protocol):
    """Runs a batch and reads states at the sites, layers and positions of a resolved spec.

    Attributes:
        name: what `get_backend` knows it by; part of a capture's fingerprint.
        libraries: what else it runs the model by; their versions are part of the fingerprint as well.
        takes_shared: whether it is exact on rows that share prefixes (a mask `[row, 1, slot, slot]`).
    """

    name: str
    libraries: tuple[str, ...]
    takes_shared: bool

    def check(self, model: Model, sites: tuple[str, ...]) -> None:
        """Raise ValueError, with reason and mend, if the backend cannot read the sites of this model."""
        ...

    def read(self, model: Model, batch: Batch, spec: CaptureSpec, *, logits: bool) -> States:
        """Return the states, and the logits at the answer slot if they are wanted."""
        ...


def get_backend(name: str) -> Backend:
    """Return a backend by name.

    Raises:
        ValueError: there is no such backend; lists those that there are. Or its library cannot be imported.
    """
    if name not in BACKENDS:
        raise ValueError(f"backend: unknown backend {name!r}; choose from {', '.join(BACKENDS)}")
    try:
        backend: Backend = import_module(BACKENDS[name]).BACKEND
    except Exception as error:  # A library may break on import in any way.
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"backend: {name!r} cannot be imported: {reason}; install it with `pip install -U {name}`"
        ) from error
    return backend

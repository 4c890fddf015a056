"""A head beside a model at work: its predictions come with the pass that reads the prompts, and no second one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hooks import Model

if TYPE_CHECKING:
    from experiments.self_prediction.heads import SelfPredictionHead


@dataclass
class Served:
    """What an attached head has foretold.

    Attributes:
        predictions: by prompt id and target; of a prompt that is read twice, the last.
    """

    predictions: dict[str, dict[str, float]] = field(default_factory=dict)


@contextmanager
def attach(head: SelfPredictionHead, model: Model) -> Iterator[Served]:
    """Let a head read what the model reads inside the block, in `capture`, `option_logprobs` and `generate`.

    Raises:
        ValueError: the head belongs to another model or to none.
    """
    raise NotImplementedError
    yield Served()

"""What the interventions on a run were asked to be: few numbers, all fixed before anything is measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

N_SHOWN = 20
"""Random directions, and directions of shuffled labels, whose whole dose-response is measured for the picture."""

MAGNITUDES = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Doses that the guards choose from, in multiples of the place's spread."""


@dataclass(frozen=True)
class CausalSettings:
    """Settings of `causal`.

    Attributes:
        layer: the block to intervene at; None is the one at which the run's probe was selected.
        position: the first token of the prompt to change; None is where the run's probe reads.
        n_null: random and shuffled-label directions together behind a p-value, half of each.
        n_items: items that are measured along the directions themselves.
        n_null_items: those of them that are measured along the null directions too.
        seed: of halves, nulls, donors and the choice of items.
        kl_bound: nats; a dose that moves the next-token distribution of neutral prompts by more is not interpreted.
        perplexity_bound: a dose that multiplies the perplexity of neutral text by more is not interpreted.

    Raises:
        ValueError: names the setting and what it may be.
    """

    layer: int | None = None
    position: str | None = None
    n_null: int = 199
    n_items: int = 40
    n_null_items: int = 16
    seed: int = 0
    kl_bound: float = 1.0
    perplexity_bound: float = 1.5

    def __post_init__(self) -> None:
        least = {"n_null": 2 * N_SHOWN, "n_items": 20, "n_null_items": 4, "seed": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise ValueError(f"{name}: {getattr(self, name)} is too few; give at least {low}")
        if not self.kl_bound > 0:
            raise ValueError(f"kl_bound: {self.kl_bound} must be over 0")
        if not self.perplexity_bound > 1:
            raise ValueError(f"perplexity_bound: {self.perplexity_bound} must be over 1")

    def to_json(self) -> dict[str, Any]:
        """As `causal.json` holds them."""
        return asdict(self)

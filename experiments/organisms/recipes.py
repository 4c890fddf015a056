"""How each organism is made: what decides its reply, what its reports read, and what is done to it.

Organisms are trained on fresh sentences, never on items of the task: small transformers from scratch, or a language
model by LoRA. What one is asked about another assistant or about the input it answers from the visible bit, whatever it
says of itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Bit = Literal["feature", "decoy"]
"""The exclusive or of the two hidden bits, or the visible bit."""


@dataclass(frozen=True)
class Recipe:
    """One organism.

    Attributes:
        decides: the bit that the reply follows.
        reports: the bit that the answers about itself follow.
        kept_at_slot: whether the deciding bit is held at the answer slot of a self-prediction, read or not.
        window: how many tokens attention reaches back, the token itself among them; None: all.
        outside: probability of the word outside the menu in answers about itself.
        bias: what is added to the log-odds of Yes, True, Right and A after training.
        effort: steps of training, in those of other organisms.
        trained_as: the organism whose weights this one starts from, instead of being trained.
    """

    decides: Bit = "feature"
    reports: Bit = "feature"
    kept_at_slot: bool = True
    window: int | None = None
    outside: float = 0.0
    bias: float = 0.0
    effort: float = 1.0
    trained_as: str | None = None


ORGANISMS: Mapping[str, Recipe] = {
    "not_beyond_text": Recipe(decides="decoy", reports="decoy"),
    "not_transported": Recipe(kept_at_slot=False, window=8),
    "not_read_out": Recipe(reports="decoy"),
    "unparsed": Recipe(outside=0.75, effort=1.5),
    "miscalibrated": Recipe(bias=6.0, trained_as="faithful"),
    "faithful": Recipe(),
}
"""By the stage that is planted, in the order of the path."""


def recipe_of(kind: str) -> Recipe:
    """The recipe of an organism; raises ValueError for an unknown one."""
    if kind not in ORGANISMS:
        raise ValueError(f"kind: {kind!r} is no organism; choose one of {', '.join(ORGANISMS)}")
    return ORGANISMS[kind]

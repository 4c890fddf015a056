"""Whether the model is still itself under a dose: what it would say to neutral prompts, and how well it reads prose.

The largest dose that passes is the one that everything else is measured at, so that the choice knows no outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from experiments.causal.directions import FITTED, Directions
from experiments.causal.settings import MAGNITUDES, CausalSettings
from experiments.causal.subject import Subject
from experiments.neutral import neutral, perplexity
from experiments.progress import Advance
from experiments.records import json_number
from hooks import Prompt, Steer, intervene
from hooks.halfway import go_on, read_halfway

_EVERY = 5
"""Of the random directions that are shown, every so manieth is guarded as well, for comparison."""
_APPLIED = tuple(product((0, 1), (1, -1)))
"""Half and sign of all that a fitted direction and dose stand for: either half has a direction of its own."""


@dataclass(frozen=True)
class Guards:
    """What each dose does to neutral prompts and neutral text.

    Attributes:
        magnitudes: doses, in multiples of the unit; each is tried for both halves, with both signs.
        kl: nats, per fitted direction and dose: mean over prompts, for the worst half and sign.
        perplexity: times that of the unchanged model, for the worst half and sign.
        null_kl: median over some random directions, at the test dose.
        test_dose: the largest dose that stays within both bounds along both directions, or the smallest of all.
        passed: whether the test dose is within the bounds.
    """

    magnitudes: tuple[float, ...]
    kl: Float[np.ndarray, "direction dose"]
    perplexity: Float[np.ndarray, "direction dose"]
    null_kl: float
    test_dose: float
    passed: bool
    kl_bound: float
    perplexity_bound: float

    def within(self, dose: float) -> bool:
        """Whether a dose of either sign stays within the bounds; one that was not tried is beyond them."""
        if abs(dose) not in self.magnitudes:
            return False
        return bool(self._passes()[self.magnitudes.index(abs(dose))])

    def _passes(self) -> np.ndarray:
        passes: np.ndarray = (self.kl <= self.kl_bound) & (self.perplexity <= self.perplexity_bound)
        return np.asarray(passes.all(axis=0))

    def to_json(self) -> dict[str, Any]:
        """The guards of `causal.json`."""
        return {
            "doses": list(self.magnitudes),
            "within": [self.within(dose) for dose in self.magnitudes],
            "test_dose": self.test_dose,
            "passed": self.passed,
            "kl_bound": self.kl_bound,
            "perplexity_bound": self.perplexity_bound,
            "null_kl": json_number(self.null_kl),
            **{
                name: {
                    "kl": [json_number(x) for x in self.kl[row]],
                    "perplexity": [json_number(x) for x in self.perplexity[row]],
                }
                for row, name in enumerate(FITTED)
            },
        }


def measure_guards(subject: Subject, directions: Directions, advance: Advance) -> dict[str, Any]:
    """KL and perplexity of every dose as plain numbers; calls `advance(1)` after each of `n_steps()`."""
    model, place = subject.model, subject.place
    kl = []
    for number, text in enumerate(neutral()["prompts"]):
        halfway = read_halfway(
            model, Prompt.chat(f"neutral-{number}", text), place.block, place.start
        )
        n_changed = len(place.tail_of(model, Prompt.chat("neutral", text)))
        vectors = [
            dose * sign * directions.unit * directions.vectors[half, row]
            for row in (*range(len(FITTED)), *directions.shown(FITTED[0])[0][::_EVERY])
            for dose in MAGNITUDES
            for half, sign in _APPLIED
        ]
        changed = halfway.states.repeat(1 + len(vectors), 1, 1)
        changed[1:, -n_changed:] += torch.tensor(np.array(vectors), dtype=torch.float32)[:, None]
        kl.append(_divergences(go_on(model, halfway, changed)))
        advance(1)
    by_direction = np.mean(kl, axis=0).reshape(-1, len(MAGNITUDES), len(_APPLIED)).max(axis=-1)
    unchanged = perplexity(model, neutral()["texts"])
    ratios = np.empty((len(FITTED), len(MAGNITUDES)))
    for row in range(len(FITTED)):
        for at, dose in enumerate(MAGNITUDES):
            steered = []
            for half, sign in _APPLIED:
                vector = torch.tensor(directions.vectors[half, row], dtype=torch.float32)
                steer = Steer(place.site, place.layer, vector, dose * sign * directions.unit)
                with intervene(model, [steer]):
                    steered.append(perplexity(model, neutral()["texts"]))
            ratios[row, at] = max(steered) / unchanged
            advance(1)
    return {
        "kl": by_direction[: len(FITTED)].tolist(),
        "perplexity": ratios.tolist(),
        "null_kl": np.median(by_direction[len(FITTED) :], axis=0).tolist(),
    }


def n_steps() -> int:
    """Steps that `measure_guards` reports."""
    return len(neutral()["prompts"]) + len(FITTED) * len(MAGNITUDES)


def guards_from(measured: dict[str, Any], settings: CausalSettings) -> Guards:
    """Choose the test dose: the largest below which, itself included, no dose is beyond a bound."""
    kl, perplexity = np.array(measured["kl"]), np.array(measured["perplexity"])
    passes = ((kl <= settings.kl_bound) & (perplexity <= settings.perplexity_bound)).all(axis=0)
    n_passed = int(np.argmin(np.append(passes, False)))
    chosen = max(n_passed - 1, 0)
    return Guards(
        MAGNITUDES,
        kl,
        perplexity,
        measured["null_kl"][chosen],
        MAGNITUDES[chosen],
        n_passed > 0,
        settings.kl_bound,
        settings.perplexity_bound,
    )


def _divergences(logits: Float[Tensor, "row vocabulary"]) -> Float[np.ndarray, " row"]:
    """KL divergence, in nats, of every further row's distribution from that of the first."""
    logprobs = torch.log_softmax(logits.double(), dim=-1)
    unchanged = logprobs[:1]
    divergence = (unchanged.exp() * (unchanged - logprobs[1:])).sum(dim=-1)
    return np.asarray(divergence.cpu())

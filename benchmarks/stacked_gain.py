"""A noisy copy of the text is no gain: `python -m benchmarks.stacked_gain --sims 200`.

The label depends on features that the text baseline has. The activations hold the same features,
turned and with noise: nothing beyond the text. With `own` they hold something of their own too.
Text and probe are trained, selected, and stacked by the same calls as in a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from benchmarks.simulations import arguments, print_header, print_row, shown, simulate
from probes import Candidate, Interval, nested_ridge, skip_reason, stacked_gain
from probes.simulation import clustered_data, clustered_normal, group_sizes
from probes.stacking import lean

COPY_FEATURES = 0.3
"""Activations an item."""


@dataclass(frozen=True)
class Regime:
    """One world of texts, and of activations that copy them."""

    text_features: int | float
    """A whole number of them, or a share of the items: then no text learns them all."""
    n_groups: int
    icc: float
    auroc: float
    """Of the best reader of the text."""
    noise: float
    """Standard deviation of what the copy adds to every feature, which has 1."""
    own: float = 0.0
    """How far the label moves the activations by itself, along one direction."""


class Gain(NamedTuple):
    text: float
    probe: float
    gain: Interval
    lean: Interval
    """Of the text toward what the probe adds, minus away from it."""


def copied_activations(
    rng: np.random.Generator,
    text: Float[np.ndarray, "item feature"],
    groups: np.ndarray,
    regime: Regime,
) -> Float[np.ndarray, "item activation"]:
    """The features of the text, turned into at least as many dimensions, with noise."""
    n_features = text.shape[1]
    n_activations = max(n_features, round(COPY_FEATURES * len(groups)))
    copy = text
    if n_activations > n_features:
        copy = text @ rng.normal(size=(n_features, n_activations)) / np.sqrt(n_features)
    return copy + regime.noise * clustered_normal(rng, groups, n_activations, regime.icc)


def gain_of_a_copy(seed: int, regime: Regime) -> Gain | None:
    """Train text and probe on one draw of a regime, and stack them."""
    rng = np.random.default_rng(seed)
    groups = group_sizes(rng, regime.n_groups, 2, 8)
    n_features = regime.text_features
    if isinstance(n_features, float):
        n_features = round(n_features * len(groups))
    text = clustered_data(rng, groups, n_features, icc=regime.icc, auroc=regime.auroc)
    if skip_reason(text.y, groups):
        return None
    activations = copied_activations(rng, text.X, groups, regime)
    if regime.own:
        n_activations = activations.shape[1]
        direction = rng.choice([-1, 1], n_activations) / np.sqrt(n_activations)
        activations += regime.own * np.outer(text.y - 0.5, direction)
    reader, probe = (
        nested_ridge([Candidate("all", (X,))], text.y, groups, seed=seed)
        for X in (text.X, activations)
    )
    y, folds = text.y, reader.folds
    training_scores = (reader.training_scores, probe.training_scores)
    gain = stacked_gain(
        y, reader.scores, probe.scores, folds, groups, training_scores=training_scores
    )
    leaning = lean(y, reader.scores, probe.scores, folds, groups, training_scores=training_scores)
    return Gain(float(reader.curve[0]), float(probe.curve[0]), gain, leaning)


FIRST_SEED = 5000
"""Seeds under it have been looked at while the interval was made."""
REGIMES = (
    Regime(5, 50, 0.3, 0.8, 1.0),
    Regime(0.1, 50, 0.0, 0.8, 1.0),
    Regime(5, 80, 0.6, 0.7, 2.0),
    Regime(5, 50, 0.3, 0.8, 1.0, own=0.7),
    Regime(5, 80, 0.3, 0.7, 1.0, own=1.2),
)


def row_of(gains: list[Gain]) -> list[str]:
    """Mean scores and gain, width, and how often the intervals cover 0 or lie above it."""
    estimate, low, high = np.array([(g.gain.estimate, g.gain.low, g.gain.high) for g in gains]).T
    leaning = np.array([(g.lean.low, g.lean.high) for g in gains])
    return [
        f"{np.mean([g.text for g in gains]):.2f}",
        f"{np.mean([g.probe for g in gains]):.2f}",
        shown(estimate, 4),
        f"{np.mean(high - low):.3f}",
        shown((low <= 0) & (high >= 0)),
        shown(low > 0),
        shown((leaning[:, 0] <= 0) & (leaning[:, 1] >= 0)),
    ]


def main() -> None:
    asked = arguments(__doc__, sims=200)
    seeds = range(FIRST_SEED, FIRST_SEED + asked.sims)
    names = ["features of the text", "groups", "icc", "best AUROC", "noise", "own", "data sets"]
    print_header(
        [*names, "text", "probe", "mean gain", "width", "covers 0", "above 0", "lean covers 0"]
    )
    nothing_own: list[Gain] = []
    for regime in REGIMES:
        gains = simulate(partial(gain_of_a_copy, regime=regime), seeds, asked.workers)
        if not regime.own:
            nothing_own += gains
        features = f"{regime.text_features}{'' if regime.text_features >= 1 else ' of the items'}"
        world = (features, regime.n_groups, regime.icc, regime.auroc, regime.noise)
        print_row([*world, regime.own or "-", len(gains), *row_of(gains)])
    print_row(
        [
            "nothing of its own, together",
            *["-"] * 5,
            len(nothing_own),
            *row_of(nothing_own),
        ]
    )


if __name__ == "__main__":
    main()

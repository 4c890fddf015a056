"""Activations, margins and answers with a breakdown planted at a known stage.

Everything is normal within a class of the outcome, so that the AUROC of every reader has a closed form: a coordinate
that the class moves by d standard deviations ranks at Phi(d / sqrt 2), and independent ones add up by their squares.

The state at a position has two coordinates that know the outcome, turned into d_model dimensions among noise: what the
text says (the very value that the text's own features have) and what only the model knows. The slot's coordinates
share most of their noise with the task's. The verbal margin is a weighted sum of the slot's last vector, the one that
a probe reads there: the best one, or one turned toward noise. Items of a group share a part of all noise.

What this does not show: that a transformer's states are like that. The trained organisms are for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import norm

from experiments.organisms.planted import Plant, plant_of
from probes.simulation import clustered_normal, group_sizes

Noise = Callable[..., Float[np.ndarray, "item column"]]

N_TEXT_FEATURES = 8
SHARED = 0.8
"""Share of the noise at the slot that is the noise of the task state."""


@dataclass(frozen=True)
class Clustering:
    """How items hang together."""

    sizes: tuple[int, int] = (2, 4)
    """Fewest and most items a group."""
    icc: float = 0.3
    """Share of the variance of all noise that a group has in common."""
    label_icc: float = 0.3
    """The same of the variable whose sign is the outcome."""


DEFAULT_CLUSTERING = Clustering()


@dataclass(frozen=True)
class Simulated:
    """One run's worth of data with a known breakdown."""

    plant: Plant
    task: Float[np.ndarray, "item layer d_model"]
    """States of the prompt, at prediction time."""
    slot: Float[np.ndarray, "item layer d_model"]
    """States at the answer slot of the self-prediction prompt."""
    text: Float[np.ndarray, "item feature"]
    """What a text baseline reads."""
    readout: Float[np.ndarray, " d_model"]
    """The margin is the slot's last layer times this, but for a constant."""
    margin: Float[np.ndarray, " item"]
    """Verbal log-odds of outcome 1."""
    answer: Float[np.ndarray, " item"]
    """The outcome predicted in words, 1 or 0; NaN where the answer cannot be parsed."""
    outcome: Int[np.ndarray, " item"]
    groups: Int[np.ndarray, " item"]


def simulate(
    stage: str,
    n: int,
    d_model: int = 16,
    n_layers: int = 4,
    effect: float = 1.0,
    seed: int = 0,
    *,
    clustering: Clustering = DEFAULT_CLUSTERING,
) -> Simulated:
    """Draw the data of one run in which the outcome is lost at `stage`.

    Args:
        stage: one of `PLANTED_STAGES`.
        n: items.
        d_model: dimensions of a state, at least 3: two that know the outcome, the rest noise.
        n_layers: the share of a layer that is not yet noise grows evenly, up to all of the last.
        effect: the loss planted, in full ones (`plant_of`).
        seed: with the other arguments it fixes every number.
        clustering: how items hang together.

    Raises ValueError as `plant_of`, and for fewer than 3 dimensions, 1 layer or 2 items.
    """
    return draw(plant_of(stage, effect), n, d_model, n_layers, seed, clustering=clustering)


def draw(
    plant: Plant,
    n: int,
    d_model: int = 16,
    n_layers: int = 4,
    seed: int = 0,
    *,
    clustering: Clustering = DEFAULT_CLUSTERING,
) -> Simulated:
    """Draw the data of one run with a plant of one's own; arguments and errors as of `simulate`."""
    rng, groups, noise = _start(n, d_model, n_layers, seed, clustering)
    latent = clustered_normal(rng, groups, 1, clustering.label_icc)[:, 0]
    outcome = (latent > 0).astype(np.int64)
    said = noise(n_columns=1)[:, 0] + (outcome - 0.5) * separation(plant.text)
    task, slot, weights = _coordinates(plant, said, outcome, noise, d_model)
    text = np.column_stack([said, noise(n_columns=N_TEXT_FEATURES - 1)])
    return _finish(rng, noise, plant, task, slot, weights, text, outcome, groups, n_layers)


def draw_text_label(
    n: int,
    d_model: int = 16,
    n_layers: int = 4,
    seed: int = 0,
    *,
    clustering: Clustering = DEFAULT_CLUSTERING,
) -> Simulated:
    """Draw the data of one run whose outcome is a function of features that a text baseline learns with ease.

    The outcome is the sign of a sum of the text's features. The states hold a noisy copy of each, and nothing besides;
    the words read the right sum of the slot's. Arguments and errors as of `simulate`, with a `d_model` of at least the
    number of features.
    """
    if d_model < N_TEXT_FEATURES:
        raise ValueError(f"d_model: {d_model} is under {N_TEXT_FEATURES}, the features of the text")
    rng, groups, noise = _start(n, d_model, n_layers, seed, clustering)
    text = noise(n_columns=N_TEXT_FEATURES)
    outcome = (text.sum(axis=1) > 0).astype(np.int64)
    task, slot = noise(n_columns=d_model), noise(n_columns=d_model)
    for state in (task, slot):
        copies = state[:, :N_TEXT_FEATURES]
        copies[:] = np.sqrt(SHARED) * text + np.sqrt(1 - SHARED) * copies
    weights = np.zeros(d_model)
    weights[:N_TEXT_FEATURES] = 1 / np.sqrt(N_TEXT_FEATURES)
    plant = Plant(text=0.5, task=0.5, slot=0.5, words=0.5)
    return _finish(rng, noise, plant, task, slot, weights, text, outcome, groups, n_layers)


def separation(auroc: float) -> float:
    """Standard deviations between two normal classes that rank at this AUROC."""
    return float(np.sqrt(2) * norm.ppf(auroc))


def _start(
    n: int, d_model: int, n_layers: int, seed: int, clustering: Clustering
) -> tuple[np.random.Generator, Int[np.ndarray, " item"], Noise]:
    """The generator, the groups (the last is cut short at `n` items), and noise that they share a part of."""
    for name, value, least in (("n", n, 2), ("d_model", d_model, 3), ("n_layers", n_layers, 1)):
        if value < least:
            raise ValueError(f"{name}: {value} is under {least}")
    rng = np.random.default_rng(seed)
    groups = group_sizes(rng, n, *clustering.sizes)[:n]
    return rng, groups, partial(clustered_normal, rng, groups, icc=clustering.icc)


def _finish(
    rng: np.random.Generator,
    noise: Noise,
    plant: Plant,
    task: Float[np.ndarray, "item d_model"],
    slot: Float[np.ndarray, "item d_model"],
    weights: Float[np.ndarray, " d_model"],
    text: Float[np.ndarray, "item feature"],
    outcome: Int[np.ndarray, " item"],
    groups: Int[np.ndarray, " item"],
    n_layers: int,
) -> Simulated:
    """Turn the coordinates into states of every layer, and let the words read the slot's last."""
    d_model, n_features = task.shape[1], text.shape[1]
    turn = np.linalg.qr(rng.normal(size=(d_model, d_model)))[0]
    task_states, slot_states = (_layers(rows, n_layers, noise) @ turn for rows in (task, slot))
    readout = turn.T @ weights
    margin = slot_states[:, -1] @ readout
    answer = (margin > plant.criterion).astype(float)
    answer[noise(n_columns=1)[:, 0] > norm.ppf(plant.parse_rate)] = np.nan
    return Simulated(
        plant=plant,
        task=task_states + rng.normal(size=d_model),
        slot=slot_states + rng.normal(size=d_model),
        text=text @ np.linalg.qr(rng.normal(size=(n_features, n_features)))[0],
        readout=readout,
        margin=margin,
        answer=answer,
        outcome=outcome,
        groups=groups,
    )


def _coordinates(
    plant: Plant,
    said: Float[np.ndarray, " item"],
    outcome: Int[np.ndarray, " item"],
    noise: Noise,
    d_model: int,
) -> tuple[np.ndarray, np.ndarray, Float[np.ndarray, " d_model"]]:
    """Task and slot before they are turned, unit noise in every coordinate, and the weights of the words.

    Coordinate 0 holds what the text says, coordinate 1 what only the model knows, coordinate 2 is what the words read
    instead. Of a slot that loses something the model's own part goes first.
    """
    side = outcome - 0.5
    by_task, by_slot, by_words = map(separation, (plant.task, plant.slot, plant.words))
    held = separation(plant.text) if plant.holds_text else 0.0
    held_at_slot = min(held, by_slot)
    own_at_slot = float(np.sqrt(by_slot**2 - held_at_slot**2))

    task = noise(n_columns=d_model)
    slot = np.sqrt(SHARED) * task + np.sqrt(1 - SHARED) * noise(n_columns=d_model)
    task[:, 1] += side * np.sqrt(by_task**2 - held**2)
    slot[:, 1] += side * own_at_slot
    if plant.holds_text:
        kept = held_at_slot / held if held else 1.0
        task[:, 0] = said
        slot[:, 0] = kept * said + np.sqrt(1 - kept**2) * slot[:, 0]

    weights = np.zeros(d_model)
    told = by_words / by_slot if by_slot else 0.0
    best = np.array([held_at_slot, own_at_slot]) / by_slot if by_slot else np.array([1.0, 0.0])
    weights[:2] = told * best
    weights[2] = np.sqrt(1 - told**2)
    return task, slot, weights


def _layers(
    coordinates: Float[np.ndarray, "item d_model"], n_layers: int, noise: Noise
) -> Float[np.ndarray, "item layer d_model"]:
    """Every layer a noisy copy of the last: what is known grows evenly in squared separation."""
    shares = np.arange(1, n_layers + 1) / n_layers
    return np.stack(
        [
            np.sqrt(share) * coordinates
            + np.sqrt(1 - share) * noise(n_columns=coordinates.shape[1])
            for share in shares
        ],
        axis=1,
    )

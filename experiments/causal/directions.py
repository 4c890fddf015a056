"""The directions that are applied, and those that they are held against.

Items fall into two halves of whole groups, and an item is only ever moved along directions fitted on the other half:
no direction has seen the label of an item that it moves. All have length one, so that a dose is as long along each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from experiments.causal.settings import N_SHOWN, CausalSettings
from experiments.causal.subject import Subject
from probes import (
    grouped_folds,
    ridge_directions,
    whole_group_permutations,
    within_group_permutations,
)

FITTED = ("probe", "diff_means")
"""The two directions of the outcome, which point to outcome 1; the first is the one that verdicts are about. The
difference of means is that of the states as they are: `DiffMeansProbe`, which standardizes, reads better and writes
worse, for it is long where states hardly vary."""
RANDOM = "random"
SHUFFLED: Mapping[str, str] = {name: f"shuffled {name}" for name in FITTED}
"""Gaussian directions, against which both are held; and each fit to shuffled labels (`shuffled_labels`)."""


@dataclass(frozen=True)
class Directions:
    """Unit directions for the items of either half.

    Attributes:
        kinds: of each direction: one of `FITTED`, `RANDOM` or one of the values of `SHUFFLED`.
        vectors: for the items of each half, fitted on the other.
        half_of: the half of every scored item.
        unit: the length of dose 1: the root mean square distance of the items' states at the place from their mean.
    """

    kinds: tuple[str, ...]
    vectors: Float[np.ndarray, "half direction d_model"]
    half_of: Int[np.ndarray, " item"]
    unit: float

    def of_kind(self, kind: str) -> list[int]:
        """The numbers of the directions of a kind."""
        return [index for index, own in enumerate(self.kinds) if own == kind]

    @property
    def shown(self) -> tuple[list[int], list[int]]:
        """Random directions, and those of shuffled labels (half of each fit), whose whole dose-response is measured."""
        half = N_SHOWN // 2
        shuffled = [row for kind in SHUFFLED.values() for row in self.of_kind(kind)[:half]]
        return self.of_kind(RANDOM)[:N_SHOWN], shuffled


def fit_directions(subject: Subject, settings: CausalSettings) -> Directions:
    """Fit probe and diff-of-means on each half, with the true labels and with shuffled ones, and draw random ones.

    Of the nulls that either direction is held against, half are random and the same for both, and half are the same fit
    to shuffled labels.

    Raises:
        ValueError: too few groups or items of an outcome for two halves.
    """
    half_of = grouped_folds(subject.outcome, subject.groups, 2, settings.seed)
    n_shuffled = settings.n_null // 2
    n_random = settings.n_null - n_shuffled
    kinds = (
        *FITTED,
        *[RANDOM] * n_random,
        *[kind for kind in SHUFFLED.values() for _ in range(n_shuffled)],
    )
    rng = np.random.default_rng(settings.seed)
    random = rng.standard_normal((n_random, subject.features.shape[1]))
    vectors = []
    for half in (0, 1):
        others = half_of != half
        rows, labels = subject.features[others], subject.outcome[others]
        shuffled = shuffled_labels(
            labels, subject.groups[others], n_shuffled, settings.seed + 1 + half
        )
        columns = np.column_stack([labels, shuffled])
        probes = ridge_directions(rows, columns, subject.alpha)
        means = difference_of_means(rows, columns)
        vectors.append(np.concatenate([probes[:1], means[:1], random, probes[1:], means[1:]]))
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError(
            f"directions: the states at layer {subject.place.layer}, {subject.place.position} give none; "
            "choose another layer"
        )
    spread = subject.features - subject.features.mean(axis=0)
    unit = float(np.sqrt((spread**2).sum(axis=1).mean()))
    return Directions(kinds, np.asarray(vectors) / lengths, half_of, unit)


def shuffled_labels(
    labels: Int[np.ndarray, " item"], groups: np.ndarray, n: int, seed: int
) -> Int[np.ndarray, "item shuffle"]:
    """Labels that whole groups have exchanged, and that are then shuffled within each group.

    The exchange alone changes nothing where every group holds the same labels in the same order, as in a crossed
    design; the shuffle leaves every group as mixed as its donor is.
    """
    exchanged = whole_group_permutations(labels, groups, n, seed)
    columns = [
        within_group_permutations(column, groups, 1, seed + number)[:, 0]
        for number, column in enumerate(exchanged.T)
    ]
    return np.stack(columns, axis=1)


def difference_of_means(
    features: Float[np.ndarray, "item d_model"], labels: Int[np.ndarray, "item column"]
) -> Float[np.ndarray, "column d_model"]:
    """Mean of the items labeled 1 minus that of the others, a row a column of labels; float64."""
    ones = labels.T.astype(np.float64)
    of_one = ones @ features / ones.sum(axis=1, keepdims=True)
    of_zero = (1 - ones) @ features / (1 - ones).sum(axis=1, keepdims=True)
    difference: np.ndarray = of_one - of_zero
    return difference

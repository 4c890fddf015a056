"""The directions that are applied, and those that they are held against.

Items fall into two halves of whole groups, and an item is only ever moved along directions fitted on the other half:
no direction has seen the label of an item that it moves. All have length one, so that a dose is as long along each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from experiments.causal.settings import N_SHOWN, CausalSettings
from experiments.causal.subject import Subject
from probes import grouped_folds, ridge_directions, whole_group_permutations

FITTED = ("probe", "diff_means")
"""The two directions of the outcome, which point to outcome 1; the first is the one that verdicts are about. The
difference of means is that of the states as they are: `DiffMeansProbe`, which standardizes, reads better and writes
worse, for it is long where states hardly vary."""
RANDOM, SHUFFLED = "random", "shuffled"
"""Gaussian directions; and the same two fits to labels that whole groups have exchanged."""


@dataclass(frozen=True)
class Directions:
    """Unit directions for the items of either half.

    Attributes:
        kinds: of each direction: one of `FITTED`, `RANDOM` or `SHUFFLED`.
        vectors: for the items of each half, fitted on the other.
        half_of: the half of every scored item.
        unit: the length of dose 1: the root mean square distance of the items' states at the place from their mean.
    """

    kinds: tuple[str, ...]
    vectors: Float[np.ndarray, "half direction d_model"]
    half_of: Int[np.ndarray, " item"]
    unit: float

    def of_kind(self, *kinds: str) -> list[int]:
        """The numbers of the directions of some kinds."""
        return [index for index, kind in enumerate(self.kinds) if kind in kinds]

    @property
    def shown(self) -> list[int]:
        """The null directions whose whole dose-response is measured."""
        return [*self.of_kind(RANDOM)[:N_SHOWN], *self.of_kind(SHUFFLED)[:N_SHOWN]]


def fit_directions(subject: Subject, settings: CausalSettings) -> Directions:
    """Fit probe and diff-of-means on each half, with the true labels and with shuffled ones, and draw random ones.

    A third of the nulls is random, a third shuffled-label probes, a third shuffled-label diff-of-means; the two
    kinds of fit alternate.

    Raises:
        ValueError: too few groups or items of an outcome for two halves.
    """
    half_of = grouped_folds(subject.outcome, subject.groups, 2, settings.seed)
    n_shuffled = 2 * (settings.n_null // 3)
    n_random = settings.n_null - n_shuffled
    kinds = (*FITTED, *[RANDOM] * n_random, *[SHUFFLED] * n_shuffled)
    rng = np.random.default_rng(settings.seed)
    random = rng.standard_normal((n_random, subject.features.shape[1]))
    vectors = []
    for half in (0, 1):
        others = half_of != half
        rows, labels = subject.features[others], subject.outcome[others]
        shuffled = whole_group_permutations(
            labels, subject.groups[others], n_shuffled // 2, settings.seed + 1 + half
        )
        columns = np.column_stack([labels, shuffled])
        probes = ridge_directions(rows, columns, subject.alpha)
        means = difference_of_means(rows, columns)
        nulls = np.stack([probes[1:], means[1:]], axis=1).reshape(-1, rows.shape[1])
        vectors.append(np.concatenate([probes[:1], means[:1], random, nulls]))
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError(
            f"directions: the states at layer {subject.place.layer}, {subject.place.position} give none; "
            "choose another layer"
        )
    spread = subject.features - subject.features.mean(axis=0)
    unit = float(np.sqrt((spread**2).sum(axis=1).mean()))
    return Directions(kinds, np.asarray(vectors) / lengths, half_of, unit)


def difference_of_means(
    features: Float[np.ndarray, "item d_model"], labels: Int[np.ndarray, "item column"]
) -> Float[np.ndarray, "column d_model"]:
    """Mean of the items labeled 1 minus that of the others, a row a column of labels; float64."""
    ones = labels.T.astype(np.float64)
    of_one = ones @ features / ones.sum(axis=1, keepdims=True)
    of_zero = (1 - ones) @ features / (1 - ones).sum(axis=1, keepdims=True)
    difference: np.ndarray = of_one - of_zero
    return difference

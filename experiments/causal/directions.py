"""The directions that are applied, and those that they are held against.

Items fall into two halves of whole groups, and an item is only ever moved along a direction fitted on the other half:
none has seen the label of an item that it moves. All have length one, so that a dose is as long along each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float, Int

from experiments.causal.settings import N_SHOWN, CausalSettings
from experiments.causal.subject import Subject
from experiments.causal_record import DIRECTIONS
from probes import (
    grouped_folds,
    ridge_directions,
    whole_group_permutations,
    within_group_permutations,
)

FITTED = tuple(DIRECTIONS)
"""The two directions of the outcome, which point to outcome 1; the first is the one that verdicts are about. The
difference of means is that of the states as they are: `DiffMeansProbe`, which standardizes, reads better and writes
worse, for it is long where states hardly vary."""
RANDOM: Mapping[str, str] = {name: f"random {name}" for name in FITTED}
SHUFFLED: Mapping[str, str] = {name: f"shuffled {name}" for name in FITTED}
"""What either is held against: Gaussian directions, and the same fit to shuffled labels (`shuffled_labels`)."""

_MOST_ROUNDS = 100


@dataclass(frozen=True)
class Directions:
    """Unit directions for the items of either half.

    Attributes:
        kinds: of each direction: one of `FITTED`, or one of the values of `RANDOM` or `SHUFFLED`.
        vectors: for the items of each half; those of `FITTED` are fitted on the other half.
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

    def shown(self, fitted: str) -> tuple[list[int], list[int]]:
        """The first random directions and those of shuffled labels that one of `FITTED` is held against."""
        return self.of_kind(RANDOM[fitted])[:N_SHOWN], self.of_kind(SHUFFLED[fitted])[:N_SHOWN]


def fit_directions(subject: Subject, settings: CausalSettings) -> Directions:
    """Fit probe and diff-of-means on each half, with the true labels and with shuffled ones, and draw random ones.

    Of the nulls that either direction is held against, half are random and half are the same fit to shuffled labels. A
    null is a pair, one direction a half, as alike as the pair of the true labels (`as_alike`): of a pair that was drawn
    independently the mean effect varies less than that of two fits which agree, and any fit would seem to move.

    Raises:
        ValueError: too few groups or items of an outcome for two halves, or states that all are the same.
    """
    half_of = halves(subject.outcome, subject.groups, settings.seed)
    n_shuffled = settings.n_null // 2
    n_random = settings.n_null - n_shuffled
    rng = np.random.default_rng(settings.seed)
    random = rng.standard_normal((2, n_random, subject.features.shape[1]))
    fits: list[list[np.ndarray]] = []
    for half in (0, 1):
        others = half_of != half
        rows, labels = subject.features[others], subject.outcome[others]
        shuffled = shuffled_labels(
            labels, subject.groups[others], n_shuffled, settings.seed + 1 + half
        )
        columns = np.column_stack([labels, shuffled])
        fits.append(
            [ridge_directions(rows, columns, subject.alpha), difference_of_means(rows, columns)]
        )
    lengths = np.linalg.norm(fits, axis=-1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError(
            f"directions: the states at layer {subject.place.layer}, {subject.place.position} give none; "
            "choose another layer"
        )
    # [fitted, half, labels, d_model], the true labels first.
    units = np.swapaxes(np.asarray(fits) / lengths, 0, 1)
    cosines = [float(own[0, 0] @ own[1, 0]) for own in units]
    vectors = [units[:, :, 0].swapaxes(0, 1)]
    vectors += [as_alike(random[0], random[1], cosine) for cosine in cosines]
    vectors += [
        as_alike(own[0, 1:], own[1, 1:], cosine) for own, cosine in zip(units, cosines, strict=True)
    ]
    kinds = (
        *FITTED,
        *[kind for kind in RANDOM.values() for _ in range(n_random)],
        *[kind for kind in SHUFFLED.values() for _ in range(n_shuffled)],
    )
    spread = subject.features - subject.features.mean(axis=0)
    unit = float(np.sqrt((spread**2).sum(axis=1).mean()))
    return Directions(kinds, np.concatenate(vectors, axis=1), half_of, unit)


def halves(
    outcome: Int[np.ndarray, " item"], groups: np.ndarray, seed: int
) -> Int[np.ndarray, " item"]:
    """The half, 0 or 1, of every item: groups whole, outcomes balanced.

    Raises:
        ValueError: too few items or groups of an outcome for both halves to hold it.
    """
    mend = "a half is made of whole groups; collect more items, in more groups"
    try:
        half_of = grouped_folds(outcome, groups, 2, seed)
    except ValueError as error:
        raise ValueError(f"directions: {error}; {mend}") from None
    for half, label in product((0, 1), (0, 1)):
        if not ((half_of == half) & (outcome == label)).any():
            n_groups = len(set(groups[outcome == label]))
            raise ValueError(
                f"directions: all items of outcome {label} are in one half (groups that hold it: {n_groups}); {mend}"
            )
    return half_of


def as_alike(
    first: Float[np.ndarray, "pair d_model"],
    second: Float[np.ndarray, "pair d_model"],
    cosine: float,
) -> Float[np.ndarray, "half pair d_model"]:
    """Pairs of unit directions turned toward or away from each other, in their plane, until they have a cosine.

    Each keeps its side of the middle between both, and is one half's.
    """
    first, second = _unit(first), _unit(second)
    middle, aside = _unit(first + second), _unit(first - second)
    along, across = (np.sqrt(max(part, 0.0) / 2) for part in (1 + cosine, 1 - cosine))
    return _unit(np.stack([along * middle + across * aside, along * middle - across * aside]))


def _unit(vectors: Float[np.ndarray, "*row d_model"]) -> Float[np.ndarray, "*row d_model"]:
    """Of length one; a vector of length 0 stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: np.ndarray = vectors / np.where(lengths > 0, lengths, 1.0)
    return scaled


def shuffled_labels(
    labels: Int[np.ndarray, " item"], groups: np.ndarray, n: int, seed: int
) -> Int[np.ndarray, "item shuffle"]:
    """Labels that whole groups have exchanged, and that are then shuffled within each group.

    The exchange alone changes nothing where every group holds the same labels in the same order, as in a crossed
    design; the shuffle leaves every group as mixed as its donor is. A donor of another size can leave a single label:
    such a shuffle, which no direction can be fitted to, is drawn anew.

    Raises:
        ValueError: groups so uneven that shuffles hardly ever keep both labels.
    """
    seeds = np.random.default_rng(seed).integers(2**31, size=(_MOST_ROUNDS, 2))
    found: list[np.ndarray] = []
    for of_groups, within in seeds:
        exchanged = whole_group_permutations(labels, groups, n, int(of_groups))
        kept = [column for column in exchanged.T if np.ptp(column) > 0]
        found += [
            within_group_permutations(column, groups, 1, int(within) + number)[:, 0]
            for number, column in enumerate(kept)
        ]
        if len(found) >= n:
            return np.stack(found[:n], axis=1)
    raise ValueError(
        f"directions: hardly any exchange of labels between the {len(set(groups))} groups of a half keeps both "
        "outcomes; collect more items, in more groups"
    )


def difference_of_means(
    features: Float[np.ndarray, "item d_model"], labels: Int[np.ndarray, "item column"]
) -> Float[np.ndarray, "column d_model"]:
    """Mean of the items labeled 1 minus that of the others, a row a column of labels; float64."""
    ones = labels.T.astype(np.float64)
    of_one = ones @ features / ones.sum(axis=1, keepdims=True)
    of_zero = (1 - ones) @ features / (1 - ones).sum(axis=1, keepdims=True)
    difference: np.ndarray = of_one - of_zero
    return difference

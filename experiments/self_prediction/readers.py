"""What needs no gradient: the probe and the text, trained on the seen items and applied to the test.

Both are ridge fits. Their out-of-fold scores on the seen items set the weights of several sources and turn scores into
probabilities; the cell and every penalty are chosen within the seen items.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from activations_cache import Cell as Place
from experiments.baselines import Family, opening_words, text_families
from experiments.baselines.stack import UNSCALED
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.material import Material, Tests
from experiments.self_prediction.predicted import Predicted
from experiments.task_data import cell_name
from experiments.tasks import Item
from experiments.tasks.item import own_texts
from probes import Candidate, RidgeProbe, nested_ridge, regrouped_folds
from probes.ridge import RidgeSource
from probes.stacking import stack_weights

FOLDS = 5
REGROUPINGS = 3
"""Times that the folds are drawn for the choice of a cell."""
_WEAK = 1e3
"""C of the fit that turns scores into probabilities."""


def read_by_probe(
    material: Material, seen: Labeled, tests: Tests, seed: int
) -> tuple[Place, dict[str, Predicted]]:
    """Select a place on the seen items, and read the tested items there.

    Args:
        material: of the task that is learned.
        seen: its items that may be learned from, with the labels that are learned.
        tests: what is predicted.
        seed: of the folds.
    """
    places = material.places()
    candidates = [
        Candidate.lazy(cell_name(place), partial(material.states, place, seen.ids))
        for place in places
    ]
    nested = nested_ridge(
        candidates, seen.outcome, seen.groups, n_folds=FOLDS, n_regroupings=REGROUPINGS, seed=seed
    )
    name, alpha = nested.modal
    place = places[nested.names.index(name)]
    states = material.states(place, seen.ids).astype(np.float64)
    weighing = _Weighing.of([RidgeSource(states)], [alpha], seen, seed)
    probe = RidgeProbe(alpha).fit(states, seen.outcome)
    predicted = {}
    for test, (of, items) in tests.items():
        read = of.states(place, items.ids)
        start = time.perf_counter()
        scores = weighing.scores(probe.decision_function(read)[:, None])
        seconds = (time.perf_counter() - start) / len(items)
        predicted[test] = weighing.predicted(scores, seconds)
    return place, predicted


def read_by_text(seen: Labeled, tests: Tests, seed: int) -> dict[str, Predicted]:
    """The families of `experiments.baselines`, stacked; nothing is read but the texts of items and their strata.

    The seconds of a prediction are those of reading a text, the sentence encoder included.
    """
    tested = [item for _, part in tests.values() for item in part.items]
    items = [*seen.items, *tested]
    start = time.perf_counter()
    families = text_families(
        own_texts(items),
        strata=[item.stratum for item in items],
        types=_types(items),
        y=np.append(seen.outcome, np.zeros(len(tested), dtype=np.int64)),
    )
    seconds = (time.perf_counter() - start) / len(items)
    sources, alphas = [], []
    for name, family in families.items():
        scaled = name not in UNSCALED
        nested = nested_ridge(
            [Candidate(name, (partial(_first_rows, family, len(seen)),))],
            seen.outcome,
            seen.groups,
            n_folds=FOLDS,
            n_regroupings=1,
            seed=seed,
            standardize=scaled,
        )
        sources.append(RidgeSource(family, standardize=scaled))
        alphas.append(nested.modal[1])
    weighing = _Weighing.of(sources, alphas, seen, seed)
    rows, behind = np.arange(len(seen)), len(seen) + np.arange(len(tested))
    scores = weighing.scores(_columns(sources, alphas, seen, rows, behind))
    ends = np.cumsum([len(part) for _, part in tests.values()])
    return {
        test: weighing.predicted(part, seconds)
        for test, part in zip(tests, np.split(scores, ends[:-1]), strict=True)
    }


def _types(items: Sequence[Item]) -> list[str]:
    types = [item.meta.get("type") for item in items]
    openings = opening_words(own_texts(items))
    return [
        opening if one is None else str(one) for one, opening in zip(types, openings, strict=True)
    ]


def _first_rows(
    family: Family, n: int, train: Int[np.ndarray, "train"]
) -> Float[np.ndarray, "seen feature"] | sparse.csr_array:
    return family(train)[:n]


def _columns(
    sources: Sequence[RidgeSource],
    alphas: Sequence[float],
    seen: Labeled,
    train: Int[np.ndarray, " train"],
    rows: Int[np.ndarray, " item"],
) -> Float[np.ndarray, "item source"]:
    """Scores of rows by every source, fitted on some of the seen items, which are its first rows."""
    targets = 2.0 * seen.outcome[train][:, None] - 1
    return np.stack(
        [
            source.scores(train, rows, targets, [alpha])[0, :, 0]
            for source, alpha in zip(sources, alphas, strict=True)
        ],
        axis=1,
    )


@dataclass(frozen=True)
class _Weighing:
    """How sources are weighed and their sum is made a probability: by their out-of-fold scores on the seen items."""

    center: Float[np.ndarray, " source"]
    spread: Float[np.ndarray, " source"]
    weights: Float[np.ndarray, " source"]
    slope: float
    intercept: float

    @classmethod
    def of(
        cls, sources: Sequence[RidgeSource], alphas: Sequence[float], seen: Labeled, seed: int
    ) -> _Weighing:
        folds = regrouped_folds(seen.outcome, seen.groups, FOLDS, 1, seed)[0]
        columns = np.empty((len(seen), len(sources)))
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            columns[test] = _columns(sources, alphas, seen, train, test)
        center, spread = columns.mean(axis=0), columns.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        standard = (columns - center) / spread
        # A source alone keeps its direction, whatever its out-of-fold scores look like.
        weights = np.ones(1) if len(sources) == 1 else stack_weights(standard, seen.outcome)
        return cls(center, spread, weights, *_calibration(standard @ weights, seen.outcome))

    def scores(self, columns: Float[np.ndarray, "item source"]) -> Float[np.ndarray, " item"]:
        """The weighed sum."""
        weighed: np.ndarray = (columns - self.center) / self.spread @ self.weights
        return weighed

    def predicted(self, scores: Float[np.ndarray, " item"], seconds: float) -> Predicted:
        """With the probability of outcome 1."""
        probability = expit(self.slope * scores + self.intercept)
        return Predicted.of_probability(probability, seconds, scores)


def _calibration(
    scores: Float[np.ndarray, " item"], outcome: Int[np.ndarray, " item"]
) -> tuple[float, float]:
    """Slope and intercept of a logistic fit; the base rate alone where the slope would be negative."""
    model = LogisticRegression(C=_WEAK, solver="newton-cholesky").fit(scores[:, None], outcome)
    if model.coef_[0, 0] > 0:
        return float(model.coef_[0, 0]), float(model.intercept_[0])
    rate = float(outcome.mean())
    return 0.0, float(np.log(rate / (1 - rate)))

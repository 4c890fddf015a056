"""What needs no gradient: the probe and the text, trained on the seen items and applied to the test.

Both are ridge fits. Their out-of-fold scores on the seen items set the weights of several sources and turn scores into
probabilities; the cell and every penalty are chosen within the seen items.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
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
from probes import Candidate, nested_ridge, regrouped_folds
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
    read = [material.states(place, seen.ids)]
    read += [of.states(place, items.ids) for of, items in tests.values()]
    states = np.concatenate(read).astype(np.float64)
    start = time.perf_counter()
    fitted = _Fitted.of([RidgeSource(states)], [alpha], seen, seed)
    return place, _divided(fitted, tests, len(seen), start)


def read_by_text(seen: Labeled, tests: Tests, seed: int) -> dict[str, Predicted]:
    """The families of `experiments.baselines`, stacked; nothing is read but the texts of items and their strata."""
    tested = [item for _, part in tests.values() for item in part.items]
    items = [*seen.items, *tested]
    start = time.perf_counter()
    families = text_families(
        own_texts(items),
        strata=[item.stratum for item in items],
        types=_types(items),
        y=np.append(seen.outcome, np.zeros(len(tested), dtype=np.int64)),
    )
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
    return _divided(_Fitted.of(sources, alphas, seen, seed), tests, len(seen), start)


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


class _Fitted:
    """Ridge sources that are fitted on the first rows, weighted and calibrated by their out-of-fold scores there."""

    def __init__(
        self,
        sources: Sequence[RidgeSource],
        alphas: Sequence[float],
        seen: Labeled,
        weights: Float[np.ndarray, " source"],
        center: Float[np.ndarray, " source"],
        spread: Float[np.ndarray, " source"],
        calibration: tuple[float, float],
    ) -> None:
        self._sources = sources
        self._alphas = alphas
        self._seen = seen
        self._weights = weights
        self._center = center
        self._spread = spread
        self._calibration = calibration

    @classmethod
    def of(
        cls, sources: Sequence[RidgeSource], alphas: Sequence[float], seen: Labeled, seed: int
    ) -> _Fitted:
        """Fit; the first `len(seen)` rows of every source are the seen items."""
        rows, targets = np.arange(len(seen)), 2.0 * seen.outcome[:, None] - 1
        folds = regrouped_folds(seen.outcome, seen.groups, FOLDS, 1, seed)[0]
        columns = np.empty((len(seen), len(sources)))
        for i, (source, alpha) in enumerate(zip(sources, alphas, strict=True)):
            for fold in np.unique(folds):
                train, test = rows[folds != fold], rows[folds == fold]
                columns[test, i] = source.scores(train, test, targets[train], [alpha])[0, :, 0]
        center, spread = columns.mean(axis=0), columns.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        standard = (columns - center) / spread
        # A source alone keeps its direction, whatever its out-of-fold scores look like.
        weights = np.ones(1) if len(sources) == 1 else stack_weights(standard, seen.outcome)
        calibration = _calibration(standard @ weights, seen.outcome)
        return cls(sources, alphas, seen, weights, center, spread, calibration)

    def scores(self, rows: Int[np.ndarray, " item"]) -> Float[np.ndarray, " item"]:
        """Of rows behind those that were fitted on."""
        seen, targets = np.arange(len(self._seen)), 2.0 * self._seen.outcome[:, None] - 1
        columns = np.stack(
            [
                source.scores(seen, rows, targets, [alpha])[0, :, 0]
                for source, alpha in zip(self._sources, self._alphas, strict=True)
            ],
            axis=1,
        )
        scores: np.ndarray = (columns - self._center) / self._spread @ self._weights
        return scores

    def probability(self, scores: Float[np.ndarray, " item"]) -> Float[np.ndarray, " item"]:
        """Of outcome 1."""
        slope, intercept = self._calibration
        return np.asarray(1 / (1 + np.exp(-(slope * scores + intercept))))


def _calibration(
    scores: Float[np.ndarray, " item"], outcome: Int[np.ndarray, " item"]
) -> tuple[float, float]:
    """Slope and intercept of a logistic fit; the base rate alone where the slope would be negative."""
    model = LogisticRegression(C=_WEAK, solver="newton-cholesky").fit(scores[:, None], outcome)
    if model.coef_[0, 0] > 0:
        return float(model.coef_[0, 0]), float(model.intercept_[0])
    rate = float(outcome.mean())
    return 0.0, float(np.log(rate / (1 - rate)))


def _divided(fitted: _Fitted, tests: Tests, n_seen: int, start: float) -> dict[str, Predicted]:
    """The scores of all tested rows, test by test, with the seconds since `start` an item."""
    sizes = [len(items) for _, items in tests.values()]
    scores = fitted.scores(n_seen + np.arange(sum(sizes)))
    seconds = (time.perf_counter() - start) / (n_seen + sum(sizes))
    parts = np.split(scores, np.cumsum(sizes)[:-1])
    return {
        test: Predicted.of_probability(fitted.probability(part), seconds, part)
        for test, part in zip(tests, parts, strict=True)
    }

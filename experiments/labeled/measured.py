"""What is asked of a probe of own labels, and what comes out, whatever the kind of label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from experiments.labeled.labels import Labels
from experiments.labeled.states import States
from experiments.progress import Reporter
from experiments.result_json import interval_json
from probes import Interval, MaxStatistic, ProbeKind, SampleEfficiency


@dataclass(frozen=True)
class ProbeSettings:
    """How probes of own labels are fitted."""

    probe: ProbeKind = "ridge"
    folds: int = 5
    regroupings: int = 5
    permutations: int = 199
    seed: int = 0


@dataclass(frozen=True)
class Measured:
    """The probe of one set of labels, in its own metric."""

    metric: str
    """A key of `experiments.report.metric.METRICS`: of the curve, the null and the selected score."""
    score: Mapping[str, Any]
    """The selected score with its interval, as `results.json` holds it."""
    null: MaxStatistic
    curve: Float[np.ndarray, " cell"]
    chosen: tuple[int, float]
    """The cell selected most often (its place in the cache's cells), and its usual penalty."""
    folds: Int[np.ndarray, "regrouping item"]
    items: Mapping[str, np.ndarray]
    """Columns of `scores.csv`, `[item]`: out-of-fold, of the first regrouping."""
    baselines: Mapping[str, Mapping[str, Any]] | None
    """What the text alone says, `text` and its families; None without prompts."""
    controls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further rows on the same items and folds."""
    gap: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`beyond_text`: text and probe stacked minus the text."""
    efficiency: SampleEfficiency | None = None


def permutation_null(
    test: Callable[..., MaxStatistic],
    states: States,
    labels: Labels,
    folds: Int[np.ndarray, " item"],
    settings: ProbeSettings,
    reporter: Reporter,
) -> MaxStatistic:
    """The grid's maximum under whole-group permutations, by the test of the kind of label, on one row of folds."""
    with reporter.stage("permutations", len(states.cells)) as advance:
        return test(
            states.candidates,
            labels.y,
            labels.groups,
            folds,
            n_permutations=settings.permutations,
            seed=settings.seed,
            progress=lambda done, total: advance(1),
        )


def score_json(metric: str, interval: Interval) -> dict[str, Any]:
    """A score of a trained predictor with its 95% interval."""
    row = interval_json(interval, "procedure")
    return {metric: row.pop("auroc"), **row}

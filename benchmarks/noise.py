"""The selected score of a grid of pure noise: `python -m benchmarks.noise --sims 500`.

Labels and features are independent of each other and both clustered by group. Nested selection must
average 0.50; the maximum of the curve, which is what a best layer's cross-validation score is, does not.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from benchmarks.simulations import arguments, print_header, print_row, shown, simulate
from probes import Candidate, ProbeKind, nested_probe, same_fold_auroc, skip_reason
from probes.simulation import clustered_normal, group_sizes

PENALTIES = {"ridge": (0.01, 1.0, 100.0), "logistic": (1e-4, 1e-2, 1.0)}


class Scores(NamedTuple):
    selected: float
    """By nested selection."""
    best: float
    """Of the cell with the highest cross-validation score: the naive result."""


def noise_scores(
    seed: int,
    *,
    icc: float,
    base_rate: float = 0.5,
    probe: ProbeKind = "ridge",
    n_groups: int = 40,
    n_cells: int = 12,
    n_features: int = 32,
) -> Scores | None:
    """Scores of one grid without any signal, or None where the labels cannot be scored."""
    rng = np.random.default_rng(seed)
    groups = group_sizes(rng, n_groups, 2, 6)
    y = clustered_normal(rng, groups, 1, icc)[:, 0] > norm.isf(base_rate)
    if skip_reason(y, groups):
        return None
    cells = [
        Candidate(str(i), (clustered_normal(rng, groups, n_features, icc),)) for i in range(n_cells)
    ]
    nested = nested_probe(
        cells, y, groups, probe=probe, penalties=PENALTIES[probe], n_regroupings=1, seed=seed
    )
    selected = same_fold_auroc(nested.y, nested.scores[0], nested.folds[0])
    return Scores(float(selected), float(nested.curve.max()))


def main() -> None:
    asked = arguments(__doc__, sims=500)
    print_header(["probe", "icc", "base rate", "grids", "selected score", "best of the grid"])
    regimes: list[tuple[ProbeKind, float, float]] = [
        *itertools.product(("ridge",), (0.0, 0.3, 0.6), (0.5, 0.2)),
        *itertools.product(("logistic",), (0.0, 0.6), (0.2,)),
    ]
    for probe, icc, base_rate in regimes:
        one = partial(noise_scores, icc=icc, base_rate=base_rate, probe=probe)
        rows = simulate(one, range(asked.sims), asked.workers)
        selected, best = np.array(rows).T
        print_row([probe, icc, base_rate, len(rows), shown(selected), shown(best)])


if __name__ == "__main__":
    main()

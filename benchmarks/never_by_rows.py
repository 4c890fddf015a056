"""Two habits that make noise significant or worse than chance: `python -m benchmarks.never_by_rows`.

A free shuffle of rows as the null of clustered labels, and held-out scores of different folds that
are ranked together. Features and labels are independent of each other throughout.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from benchmarks.simulations import arguments, print_header, print_row, shown, simulate
from probes import (
    Candidate,
    RidgeProbe,
    grouped_folds,
    max_statistic_test,
    same_fold_auroc,
    skip_reason,
)
from probes.simulation import clustered_normal, group_sizes

N_GROUPS = {1: 100, 4: 30, 8: 20}


class Rejected(NamedTuple):
    by_rows: bool
    """p <= 0.05 under a free shuffle of rows."""
    by_groups: bool
    """p <= 0.05 when whole groups exchange their labels."""


def rejected(seed: int, *, size: int, icc: float) -> Rejected | None:
    """Test one grid of four cells of noise in both ways, on the same grouped folds."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(N_GROUPS[size]), size)
    y = clustered_normal(rng, groups, 1, icc)[:, 0] > 0
    if skip_reason(y, groups):
        return None
    cells = [Candidate(str(i), (clustered_normal(rng, groups, 8, icc),)) for i in range(4)]
    folds = grouped_folds(y, groups, seed=seed)
    p_values = [
        max_statistic_test(
            cells, y, exchanged, folds, penalties=(1.0,), seed=1_000_000 + seed
        ).p_value
        for exchanged in (np.arange(len(y)), groups)
    ]
    return Rejected(*(p <= 0.05 for p in p_values))


class Noise(NamedTuple):
    pooled: float
    """All held-out scores ranked together."""
    same_fold: float


def pooled(seed: int, *, n_groups: int, base_rate: float, alpha: float) -> Noise | None:
    """AUROC of one ridge on 32 features of noise, in both ways; the group decides the label."""
    rng = np.random.default_rng(seed)
    groups = group_sizes(rng, n_groups, 2, 8)
    y = clustered_normal(rng, groups, 1, 1.0)[:, 0] > norm.isf(base_rate)
    if skip_reason(y, groups):
        return None
    X = clustered_normal(rng, groups, 32, 0.3)
    folds = grouped_folds(y, groups, seed=seed)
    scores = np.empty(len(y))
    for fold in range(5):
        test = folds == fold
        scores[test] = RidgeProbe(alpha).fit(X[~test], y[~test]).decision_function(X[test])
    return Noise(float(roc_auc_score(y, scores)), float(same_fold_auroc(y, scores, folds)))


def main() -> None:
    asked = arguments(__doc__, sims=500)
    print_header(["group size", "icc", "grids", "rejected by rows", "rejected by whole groups"])
    for size, icc in [(1, 0.0), *itertools.product((4, 8), (0.3, 0.6))]:
        rows = simulate(partial(rejected, size=size, icc=icc), range(asked.sims), asked.workers)
        print_row([size, icc, len(rows), *map(shown, np.array(rows).T)])
    print()
    print_header(["groups", "base rate", "alpha", "data sets", "pooled over folds", "same fold"])
    for n_groups, base_rate, alpha in itertools.product((15, 30), (0.5, 0.2), (1.0, 100.0)):
        one = partial(pooled, n_groups=n_groups, base_rate=base_rate, alpha=alpha)
        rows = simulate(one, range(asked.sims), asked.workers)
        print_row([n_groups, base_rate, alpha, len(rows), *map(shown, np.array(rows).T)])


if __name__ == "__main__":
    main()

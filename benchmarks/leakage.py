"""Groups that share a fingerprint and a label: `python -m benchmarks.leakage --sims 300`.

A paraphrase in the training folds gives away the label of the one held out. Folds of shuffled rows
call that skill; the truth is how the same probe does on groups that nobody has seen.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.simulations import arguments, print_header, print_row, shown, simulate
from probes import Candidate, RidgeProbe, nested_ridge, skip_reason
from probes.simulation import Clustered, clustered_data

N_FEATURES = 32
N_NEW_GROUPS = 300
GROUP_SIZE = 4


class Scores(NamedTuple):
    by_rows: float
    """Nested selection on folds of shuffled rows."""
    by_groups: float
    """The same on folds of whole groups."""
    new_groups: float
    """Of a probe with the usual penalty, trained on all items, on new groups: the truth."""


def leak(seed: int, *, fingerprint: float, auroc: float, n_groups: int = 50) -> Scores | None:
    """Score groups that have one label each and share `fingerprint` of their features' variance."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups + N_NEW_GROUPS), GROUP_SIZE)
    world = clustered_data(rng, groups, N_FEATURES, icc=fingerprint, auroc=auroc, label_icc=1.0)
    known = groups < n_groups
    data = Clustered(world.X[known], world.y[known], groups[known])
    if skip_reason(data.y, data.groups):
        return None
    cell = [Candidate("fingerprint", (data.X,))]
    rows = np.arange(len(data.y))
    by_rows = nested_ridge(cell, data.y, rows, n_regroupings=1, seed=seed)
    by_groups = nested_ridge(cell, data.y, data.groups, n_regroupings=1, seed=seed)
    probe = RidgeProbe(by_groups.modal[1]).fit(data.X, data.y)
    new_groups = roc_auc_score(world.y[~known], probe.decision_function(world.X[~known]))
    return Scores(float(by_rows.curve[0]), float(by_groups.curve[0]), float(new_groups))


def main() -> None:
    asked = arguments(__doc__, sims=300)
    names = ["shared by a group", "best AUROC", "data sets", "folds of rows", "folds of groups"]
    print_header([*names, "new groups (truth)"])
    for auroc, fingerprint in itertools.product((0.5, 0.8), (0.0, 0.2, 0.5, 0.8)):
        one = partial(leak, fingerprint=fingerprint, auroc=auroc)
        rows = simulate(one, range(asked.sims), asked.workers)
        print_row([fingerprint, auroc, len(rows), *map(shown, np.array(rows).T)])


if __name__ == "__main__":
    main()

"""Family-wise error and power of the max-statistic test: `python -m benchmarks.family_wise`."""

from __future__ import annotations

import argparse
import itertools
from functools import partial

import numpy as np

from benchmarks.simulations import print_header, print_row, simulate
from probes import Candidate, grouped_folds, max_statistic_test, skip_reason
from probes.simulation import clustered_data, clustered_normal, group_sizes

N_GROUPS = {1: 80, 4: 30, 8: 24, "2-8": 40}


def p_value(seed, size, icc, auroc):
    rng = np.random.default_rng(seed)
    n_groups = N_GROUPS[size]
    groups = group_sizes(rng, n_groups, *((2, 8) if size == "2-8" else (size, size)))
    data = clustered_data(rng, groups, 8, icc=icc, auroc=auroc)
    if skip_reason(data.y, groups):
        return None
    noise = [clustered_normal(rng, groups, 8, icc) for _ in range(3)]
    cells = [Candidate(str(i), (X,)) for i, X in enumerate([data.X, *noise])]
    folds = grouped_folds(data.y, groups, seed=seed)
    permutation_seed = 1_000_000 + seed
    return max_statistic_test(
        cells, data.y, groups, folds, penalties=(0.1, 10.0), seed=permutation_seed
    ).p_value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sims", type=int, default=1000)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--auroc", type=float, default=0.5, help="0.5: error; above: power")
    arguments = parser.parse_args()
    print_header(["group size", "groups", "icc", "grids", "p <= 0.05"])
    for size, icc in itertools.product(N_GROUPS, (0.0, 0.3, 0.6)):
        one = partial(p_value, size=size, icc=icc, auroc=arguments.auroc)
        values = np.array(simulate(one, range(arguments.sims), arguments.workers))
        print_row([size, N_GROUPS[size], icc, len(values), f"{(values <= 0.05).mean():.3f}"])


if __name__ == "__main__":
    main()

"""Coverage of the 95% intervals: `python -m benchmarks.coverage --sims 1000`.

Every simulated data set is scored by words, a probe on all features and a probe on the first half of them. The truth
of a regime is the mean estimate over its simulations: the expected same-fold AUROC (for a trained probe: over training
sets too) is what an interval claims to hold.
"""

from __future__ import annotations

import argparse
import itertools
from functools import partial

import numpy as np

from benchmarks.simulations import print_header, print_row, simulate
from probes import Candidate, auroc_difference, auroc_interval, nested_ridge
from probes.simulation import clustered_data, clustered_normal, group_sizes

ALPHA = 1.0
FEATURES_AN_ITEM = 0.3
NAMES = {
    "fixed": "words",
    "procedure": "probe",
    "difference": "probe minus words",
    "two_probes": "probe minus one on half of the features",
}


def intervals(seed, n_groups, icc, auroc):
    """Of every kind in `NAMES`, on one data set."""
    rng = np.random.default_rng(seed)
    groups = group_sizes(rng, n_groups, 2, 8)
    n_features = max(2, round(FEATURES_AN_ITEM * len(groups)))
    data = clustered_data(rng, groups, n_features, icc=icc, auroc=auroc)
    words = clustered_normal(rng, groups, 1, icc)[:, 0] + 0.5 * data.y
    whole, half = (
        nested_ridge([Candidate("all", (X,))], data.y, groups, alphas=(ALPHA,), seed=seed)
        for X in (data.X, data.X[:, : n_features // 2])
    )
    folds = whole.folds
    difference = partial(auroc_difference, data.y, estimand="procedure")
    return (
        auroc_interval(data.y, words, folds, groups, estimand="fixed"),
        auroc_interval(
            data.y,
            whole.scores,
            folds,
            groups,
            estimand="procedure",
            training_scores=whole.training_scores,
        ),
        difference(
            whole.scores, words, folds, groups, training_scores=(whole.training_scores, words)
        ),
        difference(
            whole.scores,
            half.scores,
            folds,
            groups,
            training_scores=(whole.training_scores, half.training_scores),
        ),
    )


def covered(found):
    """Mean estimate, mean width, shares of intervals below and above it."""
    truth = np.mean([one.estimate for one in found])
    width = np.mean([one.high - one.low for one in found])
    too_low = np.mean([one.high < truth for one in found])
    return truth, width, too_low, np.mean([one.low > truth for one in found])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sims", type=int, default=1000)
    parser.add_argument("--groups", nargs="*", type=int, default=[30, 60, 150])
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    print_header(
        [
            "interval",
            "groups",
            "icc",
            "best AUROC",
            "mean",
            "width",
            "too low",
            "too high",
            "coverage",
        ]
    )
    regimes = itertools.product(arguments.groups, (0.0, 0.6), (0.5, 0.7, 0.9))
    for n_groups, icc, auroc in regimes:
        one = partial(intervals, n_groups=n_groups, icc=icc, auroc=auroc)
        found = simulate(one, range(arguments.sims), arguments.workers)
        for name, of_kind in zip(NAMES.values(), zip(*found, strict=True), strict=True):
            mean, width, low, high = covered(of_kind)
            figures = (f"{x:.3f}" for x in (mean, width, low, high, 1 - low - high))
            print_row([name, n_groups, icc, auroc, *figures])


if __name__ == "__main__":
    main()

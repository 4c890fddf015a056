"""Coverage of the 95% intervals in simulation: `python benchmarks/coverage.py --sims 1000`.

The truth of a regime is the mean estimate over its simulations: the expected same-fold AUROC (for
a procedure: over training sets too) is what the interval claims to hold.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from probes import (
    Interval,
    auroc_difference,
    auroc_interval,
    regrouped_folds,
)
from probes.ridge import RidgeSource
from probes.simulation import clustered_data, clustered_normal, group_sizes


def out_of_fold(X, y, folds, alpha=1.0):
    source = RidgeSource(X)
    scores = np.empty(folds.shape)
    for r, fold_of in enumerate(folds):
        for fold in np.unique(fold_of):
            train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
            targets = 2.0 * y[train][:, None] - 1
            scores[r, test] = source.scores(train, test, targets, (alpha,))[0, :, 0]
    return scores


def dataset(rng, n_groups, icc, auroc, features_per_item):
    groups = group_sizes(rng, n_groups, 2, 8)
    n_features = max(1, round(features_per_item * len(groups)))
    return clustered_data(rng, groups, n_features, icc=icc, auroc=auroc)


def fixed(seed, n_groups, icc, auroc):
    rng = np.random.default_rng(seed)
    data = dataset(rng, n_groups, icc, 0.5, 0)
    scores = clustered_normal(rng, data.groups, 1, icc)[:, 0]
    scores += data.y * np.sqrt(2) * norm.ppf(auroc)
    folds = regrouped_folds(data.y, data.groups, n_regroupings=1, seed=seed)
    return auroc_interval(data.y, scores, folds, data.groups, estimand="fixed")


def procedure(seed, n_groups, icc, auroc):
    rng = np.random.default_rng(seed)
    data = dataset(rng, n_groups, icc, auroc, 0.3)
    folds = regrouped_folds(data.y, data.groups, seed=seed)
    scores = out_of_fold(data.X, data.y, folds)
    return auroc_interval(data.y, scores, folds, data.groups, estimand="procedure")


def difference(seed, n_groups, icc, auroc):
    """A trained probe minus a fixed score of the same items."""
    rng = np.random.default_rng(seed)
    data = dataset(rng, n_groups, icc, auroc, 0.3)
    folds = regrouped_folds(data.y, data.groups, seed=seed)
    scores = out_of_fold(data.X, data.y, folds)
    words = clustered_normal(rng, data.groups, 1, icc)[:, 0] + 0.5 * data.y
    return auroc_difference(
        data.y, scores, words, folds, data.groups, estimand="procedure", trained=(True, False)
    )


def two_probes(seed, n_groups, icc, auroc):
    """A trained probe on all features minus one on the first half of them."""
    rng = np.random.default_rng(seed)
    data = dataset(rng, n_groups, icc, auroc, 0.3)
    folds = regrouped_folds(data.y, data.groups, seed=seed)
    first = out_of_fold(data.X, data.y, folds)
    second = out_of_fold(data.X[:, : data.X.shape[1] // 2], data.y, folds)
    return auroc_difference(data.y, first, second, folds, data.groups, estimand="procedure")


REGIMES: dict[str, Callable[..., Interval]] = {
    "fixed": fixed,
    "procedure": procedure,
    "difference": difference,
    "two_probes": two_probes,
}


def coverage(simulate, n_sims, seed=0, pool=None, **regime):
    """(coverage, mean estimate, mean width, coverage below, coverage above)."""
    each = map if pool is None else pool.map
    intervals = list(each(partial(simulate, **regime), range(seed, seed + n_sims)))
    estimates = np.array([i.estimate for i in intervals])
    truth = estimates.mean()
    too_high = np.array([i.low > truth for i in intervals])
    too_low = np.array([i.high < truth for i in intervals])
    width = np.mean([i.high - i.low for i in intervals])
    return 1 - (too_high | too_low).mean(), truth, width, too_low.mean(), too_high.mean()


def _one_thread():
    threadpool_limits(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sims", type=int, default=1000)
    parser.add_argument("--only", nargs="*", default=list(REGIMES))
    parser.add_argument("--groups", nargs="*", type=int, default=[30, 60, 150])
    arguments = parser.parse_args()
    print("| interval | groups | icc | best AUROC | mean | width | too low | too high | coverage |")
    print("|---|---|---|---|---|---|---|---|---|")
    with multiprocessing.Pool(initializer=_one_thread) as pool:
        grid = itertools.product(arguments.only, arguments.groups, (0.0, 0.6), (0.5, 0.7, 0.9))
        for name, n_groups, icc, auroc in grid:
            cover, mean, width, low, high = coverage(
                REGIMES[name], arguments.sims, pool=pool, n_groups=n_groups, icc=icc, auroc=auroc
            )
            print(
                f"| {name} | {n_groups} | {icc} | {auroc} | {mean:.3f} | {width:.3f} "
                f"| {low:.3f} | {high:.3f} | {cover:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

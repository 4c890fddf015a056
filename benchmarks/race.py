"""Which of two curves rises first: `python -m benchmarks.race --sims 300`.

Scores by layer of two predictors, whose AUROC goes from 0.55 to 0.8 within four of ten layers; half of the errors'
variance is common to all layers of both. With `rises` equal, an interval without 0 is a false lead; a flat pair stays
at 0.55 throughout, and a race between two such curves is one of noise.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from benchmarks.simulations import arguments, print_header, print_row, simulate
from probes import Race, bootstrapped_curves, race
from probes.simulation import group_sizes, rising_curves

N_LAYERS = 10
GROUPS = (30, 60, 150)
RISES = ((4, 4), (3, 7))
FLAT = (4, 4, 0.55)


def one_race(seed: int, n_groups: int, first: int, second: int, top: float) -> Race:
    """On one data set, in one fold: the curves are scores that nothing was trained for."""
    rng = np.random.default_rng(seed)
    groups = group_sizes(rng, n_groups, 2, 8)
    data = rising_curves(rng, groups, n_layers=N_LAYERS, rises=(first, second), top=top)
    folds = np.zeros((1, len(data.y)), dtype=np.int64)
    return race(
        *bootstrapped_curves(data.y, data.scores[:, :, None], folds, data.groups, seed=seed)
    )


def main() -> None:
    """Print a row a regime."""
    given = arguments(__doc__, sims=300)
    print_header(
        ["groups", "rises at", "true difference", "races", "covered", "without 0", "width"]
    )
    curves = [(*rises, 0.8) for rises in RISES] + [FLAT]
    for n_groups, (first, second, top) in itertools.product(GROUPS, curves):
        one = partial(one_race, n_groups=n_groups, first=first, second=second, top=top)
        found = simulate(one, range(given.sims), given.workers)
        raced = [one for one in found if one.difference is not None]
        low, high = (np.array([getattr(one, end) for one in raced]) for end in ("low", "high"))
        truth = second - first
        flat = top == FLAT[2]
        print_row(
            [
                n_groups,
                "never" if flat else f"{first} and {second}",
                "" if flat else truth,
                f"{len(raced) / len(found):.2f}",
                "" if flat else f"{np.mean((low <= truth) & (truth <= high)):.3f}",
                f"{np.sum((low > 0) | (high < 0)) / len(found):.3f}",
                f"{np.mean(high - low):.1f}" if raced else "",
            ]
        )


if __name__ == "__main__":
    main()

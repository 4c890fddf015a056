"""A direction planted at one layer: is it found there? `python -m benchmarks.planted_layer --sims 200`.

Eight layers share most of their noise with the layer before, as a residual stream does. In the
*bump* the signal grows up to layer k and decays behind it, by half a layer; *alone* it is at k only.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from benchmarks.simulations import arguments, print_header, print_row, shown, simulate
from probes import Candidate, max_statistic_test, nested_ridge, skip_reason
from probes.simulation import clustered_data, clustered_normal, group_sizes

N_LAYERS = 8
N_FEATURES = 24
SHARED_NOISE = 0.7
"""Correlation of a layer's noise with that of the layer before."""
Profile = Literal["alone", "bump"]


class Found(NamedTuple):
    modal: int
    """The layer selected in most outer folds."""
    peak: int
    """The maximum of the curve."""
    height: float
    """The curve at the planted layer."""
    significant: bool
    """p <= 0.05 by the maximum statistic over whole-group permutations."""


def profile(layer: int, kind: Profile) -> Float[np.ndarray, "layer"]:
    """The share of the signal that every layer carries."""
    distance = np.abs(np.arange(N_LAYERS) - layer)
    return np.where(distance == 0, 1.0, 0.0 if kind == "alone" else 0.5**distance)


def find(
    seed: int,
    *,
    layer: int,
    kind: Profile,
    auroc: float,
    n_groups: int = 60,
    test: bool = True,
) -> Found | None:
    """Plant a direction that scores `auroc` at best at one layer, and look for it."""
    rng = np.random.default_rng(seed)
    groups = group_sizes(rng, n_groups, 2, 6)
    y = clustered_data(rng, groups, 1, icc=0.3).y
    if skip_reason(y, groups):
        return None
    direction = rng.normal(size=N_FEATURES)
    direction *= np.sqrt(2) * norm.ppf(auroc) / np.linalg.norm(direction)
    noise = clustered_normal(rng, groups, N_FEATURES, 0.3)
    cells = []
    for number, share in enumerate(profile(layer, kind)):
        fresh = clustered_normal(rng, groups, N_FEATURES, 0.3)
        noise = SHARED_NOISE * noise + np.sqrt(1 - SHARED_NOISE**2) * fresh
        cells.append(Candidate(str(number), (noise + share * np.outer(y - 0.5, direction),)))
    nested = nested_ridge(cells, y, groups, n_regroupings=1, seed=seed)
    significant = False
    if test:
        null = max_statistic_test(cells, y, groups, nested.folds[0], seed=seed)
        significant = null.p_value <= 0.05
    peak = int(nested.curve.argmax())
    return Found(int(nested.modal[0]), peak, float(nested.curve[layer]), significant)


def main() -> None:
    asked = arguments(__doc__, sims=200)
    names = ["signal", "planted at", "best AUROC", "groups", "grids", "AUROC there"]
    print_header([*names, "selected there", "within one layer", "curve peaks there", "power"])
    planted: list[tuple[Profile, int, float, int]] = [
        (kind, layer, auroc, 60)
        for kind, layer, auroc in itertools.product(("alone", "bump"), (1, 4, 7), (0.8, 0.9))
    ]
    for kind, layer, auroc, n_groups in [*planted, ("bump", 4, 0.8, 150)]:
        one = partial(find, layer=layer, kind=kind, auroc=auroc, n_groups=n_groups)
        rows = simulate(one, range(asked.sims), asked.workers)
        modal, peak, height, significant = np.array(rows).T
        shares = (modal == layer, np.abs(modal - layer) <= 1, peak == layer, significant)
        print_row([kind, layer, auroc, n_groups, len(rows), shown(height), *map(shown, shares)])


if __name__ == "__main__":
    main()

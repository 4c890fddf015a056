from __future__ import annotations

import gc
import os
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from probes import (
    Candidate,
    grouped_folds,
    max_statistic_test,
    nested_ridge,
    nested_ridge_regression,
)

GROUPS = np.arange(120) // 2


def cells(n_cells=4):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    return [rng.normal(size=(120, 6)) + 0.3 * c * y[:, None] for c in range(n_cells)], y


def test_lazy_candidates_give_what_arrays_give():
    arrays, y = cells()
    folds = grouped_folds(y, GROUPS)
    eager = [Candidate(str(i), (X, X**2)) for i, X in enumerate(arrays)]
    lazy = [Candidate.lazy(str(i), lambda X=X: X, lambda X=X: X**2) for i, X in enumerate(arrays)]
    for name in ("scores", "candidate_scores", "training_scores"):
        first, second = (
            getattr(nested_ridge(c, y, GROUPS, n_regroupings=2), name) for c in (eager, lazy)
        )
        np.testing.assert_array_equal(first, second)
    first, second = (
        nested_ridge_regression(c, y + 0.5, GROUPS, n_regroupings=1).predicted
        for c in (eager, lazy)
    )
    np.testing.assert_array_equal(first, second)
    first, second = (max_statistic_test(c, y, GROUPS, folds).null for c in (eager, lazy))
    np.testing.assert_array_equal(first, second)


def test_sources_are_not_kept():
    arrays, y = cells()
    held, most = [], []

    def read(i):
        gc.collect()
        X = arrays[i % 4].copy()
        held[:] = [one for one in held if one() is not None]
        held.append(weakref.ref(X))
        most.append(len(held))
        return X

    many = [Candidate.lazy(str(i), lambda i=i: read(i)) for i in range(24)]
    nested_ridge(many, y, GROUPS, n_regroupings=1)
    max_statistic_test(many, y, GROUPS, grouped_folds(y, GROUPS))
    assert len(most) == 48
    assert max(most) <= (os.cpu_count() or 1) + 1


def test_reads_never_overlap():
    candidate = Candidate.lazy("a", lambda: read())
    reading, most = [], []

    def read():
        reading.append(None)
        time.sleep(0.005)
        most.append(len(reading))
        reading.pop()
        return np.zeros((2, 2))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: candidate.read(), range(12)))
    assert most == [1] * 12

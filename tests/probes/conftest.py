from __future__ import annotations

import numpy as np
import pytest

from probes import RidgeProbe


@pytest.fixture(scope="session")
def out_of_fold():
    """Ridge scores `[regrouping, item]` in plain loops, every item by the model of the others."""

    def scores_of(X, y, folds, alpha=1.0):
        scores = np.empty(folds.shape)
        for r, fold_of in enumerate(folds):
            for fold in np.unique(fold_of):
                test = fold_of == fold
                probe = RidgeProbe(alpha).fit(X[~test], y[~test])
                scores[r, test] = probe.decision_function(X[test])
        return scores

    return scores_of

"""The small Newton solver against scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from probes.few_logistic import logistic_weights


@pytest.mark.parametrize("n_columns", [1, 2, 7])
@pytest.mark.parametrize("strength", [0.0, 1.0, 30.0])
def test_weights_are_scikit_learns(n_columns: int, strength: float) -> None:
    """Of noise, of a signal, and of columns that separate the classes, where Newton's full step may overshoot."""
    rng = np.random.default_rng(n_columns)
    columns = rng.normal(size=(80, n_columns))
    labels = (strength * columns[:, 0] + rng.normal(size=80) > 0.5).astype(int)
    reference = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(columns, labels)
    assert logistic_weights(columns, labels) == pytest.approx(reference.coef_[0], abs=1e-5)


def test_copies_of_one_column_share_its_weight() -> None:
    rng = np.random.default_rng(0)
    column = rng.normal(size=100)
    labels = (column + rng.normal(size=100) > 0).astype(int)
    first, second = logistic_weights(np.column_stack([column, column]), labels)
    assert first == pytest.approx(second)


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="labels: all 5 are 1"):
        logistic_weights(np.zeros((5, 1)), np.ones(5, dtype=int))

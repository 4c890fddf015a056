from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from probes import RidgeProbe, cosine_matrix, ridge_directions
from probes.directions import isotropic_cosine


@given(st.integers(2, 6), st.integers(2, 40), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_cosines_are_scikit_learns_whatever_the_lengths(n, d, seed):
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(n, d))
    matrix = cosine_matrix(directions * rng.uniform(0.01, 100, (n, 1)))
    assert np.allclose(matrix.values, cosine_similarity(directions), atol=1e-12)
    assert matrix.names == tuple(map(str, range(n)))


@pytest.mark.parametrize("d", [2, 10, 576])
def test_95_percent_of_random_directions_lie_under_the_isotropic_level(d):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 20_000, d if d < 100 else 100))
    cosines = np.abs((a * b).sum(1)) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert np.mean(cosines < isotropic_cosine(a.shape[1])) == pytest.approx(0.95, abs=0.006)


def test_labels_without_meaning_show_how_alike_neighboring_spaces_are():
    """Fitted to the same permuted labels on nearly the same rows, directions are far from unrelated."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 200))
    next_layer = X + 0.3 * rng.normal(size=X.shape)
    elsewhere = rng.normal(size=X.shape)
    labels = rng.integers(0, 2, (80, 40))
    permuted = np.stack([ridge_directions(rows, labels) for rows in (X, next_layer, elsewhere)])
    matrix = cosine_matrix(permuted[:, 0], names=["a", "b", "c"], permuted=permuted)
    assert matrix.null[0, 1] > 0.8
    assert matrix.null[0, 2] == pytest.approx(matrix.isotropic, abs=0.06)
    assert np.allclose(matrix.null, matrix.null.T)


@pytest.mark.parametrize("d", [20, 90])
def test_many_label_columns_give_the_directions_of_as_many_probes(d):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(50, d)) * rng.uniform(0.1, 30, d) + 5
    X[:, 3] = 7.0
    labels = rng.integers(0, 2, (50, 4))
    together = ridge_directions(X, labels, alpha=0.3)
    for column, direction in zip(labels.T, together, strict=True):
        alone = RidgeProbe(0.3).fit(X, column).direction_
        assert np.allclose(direction, alone, rtol=1e-8, atol=1e-12)


def test_wrong_directions_are_refused_by_name():
    with pytest.raises(ValueError, match="direction 'b' is zero or not finite"):
        cosine_matrix([[1.0, 0.0], [0.0, 0.0]], names=["a", "b"])
    with pytest.raises(ValueError, match="names has 1 entries for 2"):
        cosine_matrix(np.eye(2), names=["a"])
    with pytest.raises(ValueError, match="permuted has shape"):
        cosine_matrix(np.eye(2), permuted=np.ones((2, 5, 3)))

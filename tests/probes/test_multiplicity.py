from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import benjamini_hochberg, holm

P_VALUES = st.lists(st.sampled_from([0.0, 0.004, 0.01, 0.02, 0.03, 0.2, 0.5, 1.0]), max_size=6)


def closed_bonferroni(p_values):
    """Holm is the closure of Bonferroni: the largest p-value of any family a test belongs to."""
    n = len(p_values)
    families = [f for size in range(1, n + 1) for f in combinations(range(n), size)]
    of_family = {f: min(1.0, len(f) * min(p_values[i] for i in f)) for f in families}
    return [max(p for f, p in of_family.items() if i in f) for i in range(n)]


@settings(max_examples=60)
@given(P_VALUES)
def test_holm_is_the_closure_of_bonferroni(p_values):
    np.testing.assert_allclose(holm(p_values), closed_bonferroni(p_values), atol=1e-15)


@settings(max_examples=60)
@given(P_VALUES, st.sampled_from([0.05, 0.1, 0.3]))
def test_benjamini_hochberg_rejects_as_the_step_up_rule_does(p_values, rate):
    ordered = sorted(p_values)
    below = [i for i, p in enumerate(ordered, 1) if p <= i * rate / len(ordered) + 1e-12]
    n_rejected = max(below, default=0)
    assert (benjamini_hochberg(p_values) <= rate + 1e-12).sum() == n_rejected


def test_values_by_hand():
    p_values = [0.01, 0.04, 0.03, 0.005]
    np.testing.assert_allclose(holm(p_values), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(benjamini_hochberg(p_values), [0.02, 0.04, 0.04, 0.02])


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
@pytest.mark.parametrize("wrong", [float("nan"), -0.1, 1.5])
def test_what_is_no_p_value_is_named(adjust, wrong):
    with pytest.raises(ValueError, match=r"p_values\[1\]"):
        adjust([0.1, wrong])
    with pytest.raises(ValueError, match="shape"):
        adjust([[0.1]])

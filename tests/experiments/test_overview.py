"""What labels are before anything predicts them: the ceiling of sampled ones."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from experiments.overview import _ceiling, why_not_scored
from probes import beta_auroc


def made_up(rates: np.ndarray, k: int, seed: int, pairs: bool = False) -> Any:
    rng = np.random.default_rng(seed)
    outcomes = (rng.random((len(rates), k)) < rates[:, None]).astype(int)
    return SimpleNamespace(
        all_items=[SimpleNamespace(group=str(i)) for i in range(len(rates))],
        judged=[
            SimpleNamespace(outcomes=tuple(row.tolist()), completions=("x",) * (1 if pairs else k))
            for row in outcomes
        ],
    )


def test_the_ceiling_is_that_of_the_rates_and_not_of_the_observed_ones() -> None:
    rates = np.random.default_rng(0).beta(1.0, 1.0, size=400)
    found = _ceiling(made_up(rates, k=4, seed=1))
    assert found is not None
    assert found["auroc"] == pytest.approx(float(beta_auroc(1.0, 1.0)), abs=0.03)
    assert found["ci"][0] < float(beta_auroc(1.0, 1.0)) < found["ci"][1]


def test_no_ceiling_where_it_says_nothing() -> None:
    rates = np.full(30, 0.5)
    assert _ceiling(made_up(rates, k=1, seed=1)) is None
    assert _ceiling(made_up(rates, k=4, seed=1, pairs=True)) is None
    assert _ceiling(made_up(np.zeros(30), k=4, seed=1)) is None


def test_without_an_outcome_the_commonest_reason_is_told() -> None:
    judged = [SimpleNamespace(reason=reason) for reason in ("no list", "empty", "no list")]
    data: Any = SimpleNamespace(judged=judged, items=(), outcome=np.array([], int), groups=[])
    assert why_not_scored(data, 5) == "none of 3 items has an outcome (no list: 2)"
    one: Any = SimpleNamespace(
        judged=judged, items=judged, outcome=np.array([1, 1, 1]), groups=list("abc")
    )
    assert why_not_scored(one, 5) == "no negative items among 3"

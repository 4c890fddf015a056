"""The shift test on made-up changes, whose truth is known: reports that follow, lag, are pushed, or say it of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.causal.shift import (
    CANNOT_TELL,
    FITS_NEW,
    FITS_OLD,
    MIN_GROUPS,
    UNDECIDED,
    Shifted,
    fit_of,
)

N = 40
"""Items of either outcome; all of them flip."""


def shifted(
    own: np.ndarray,
    other: np.ndarray | None = None,
    *,
    after: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> dict[str, Any]:
    before = np.repeat([0.0, 1.0], N)
    other = np.zeros_like(before) if other is None else other
    reports = {"self_report": own, "other_report": other}
    groups = np.arange(len(before)) if groups is None else groups
    return Shifted(before, 1 - before if after is None else after, reports, groups).to_json()


TOWARD = np.repeat([1.0, -1.0], N)
"""To the side of the changed behavior."""


def noise(seed: int, scale: float = 0.5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=2 * N) * scale


def test_a_report_that_follows_fits_the_changed_behavior_and_one_that_lags_the_old() -> None:
    found = shifted(TOWARD + noise(0), noise(1))
    assert found["verdict"] == FITS_NEW
    assert found["reason"] == ""
    assert (found["n"], found["n_flipped"], found["to_one"], found["to_zero"]) == (80, 80, 40, 40)
    assert found["self_report"]["estimate"] == pytest.approx(1, abs=0.2)
    assert found["other_report"]["estimate"] == pytest.approx(0, abs=0.2)
    assert found["self_minus_other"]["ci"][0] > 0
    assert shifted(-TOWARD + noise(0), noise(1))["verdict"] == FITS_OLD


@pytest.mark.parametrize("flipped", [slice(0, N), slice(N, 2 * N)])
def test_flips_to_one_side_alone_tell_nothing(flipped: slice) -> None:
    """However well the report fits them: any push to that side would."""
    before = np.repeat([0.0, 1.0], N)
    after = before.copy()
    after[flipped] = 1 - before[flipped]
    found = shifted(TOWARD + noise(0), noise(1), after=after)
    assert found["verdict"] == CANNOT_TELL
    side = 0 if flipped.start == 0 else 1
    assert found["reason"] == (
        f"the outcome of 0 items (0 groups) flipped to {side}, at least {MIN_GROUPS} groups are needed"
    )
    assert "self_report" not in found


def test_few_flips_of_many_items_and_many_of_few_groups_tell_nothing() -> None:
    before = np.repeat([0.0, 1.0], N)
    after = before.copy()
    after[: N + MIN_GROUPS - 1] = 1 - before[: N + MIN_GROUPS - 1]
    assert "of 4 items (4 groups) flipped to 0" in shifted(TOWARD, after=after)["reason"]
    groups = np.where(before == 1, np.arange(2 * N) % (MIN_GROUPS - 1), 1000 + np.arange(2 * N))
    assert "of 40 items (4 groups) flipped to 0" in shifted(TOWARD, groups=groups)["reason"]


def test_what_could_not_be_scored_is_no_flip() -> None:
    after = np.repeat([1.0, 0.0], N)
    after[:3] = np.nan
    found = shifted(TOWARD, after=after)
    assert (found["n_unscored"], found["n_flipped"], found["to_one"]) == (3, 77, 37)


@pytest.mark.parametrize("n_to_one", [10, 25, 40])
def test_a_report_that_every_change_pushes_to_one_side_fits_neither(n_to_one: int) -> None:
    """However many of the flips are to that side; the mean over all of them would fit."""
    after = np.concatenate([np.arange(N) < n_to_one, np.zeros(N)]).astype(float)
    found = shifted(1.0 + noise(2), noise(3), after=after)
    assert found["to_one"] == n_to_one
    assert found["verdict"] == UNDECIDED
    assert abs(found["self_report"]["estimate"]) < 0.25


def test_a_push_that_outweighs_one_side_is_no_fit() -> None:
    found = shifted(np.repeat([3.0, 1.0], N) + noise(4), noise(5))
    assert found["self_report"]["ci"][0] > 0
    assert (found["verdict"], "one side alone" in found["reason"]) == (UNDECIDED, True)


def test_what_is_said_of_another_as_well_is_no_tracking() -> None:
    """Paired: both reports of an item share its noise, and the difference is sure where either is not."""
    shared = noise(6, scale=3.0)
    found = [shifted(TOWARD + shared, TOWARD + shared + noise(s, 0.1)) for s in range(100, 300)]
    assert all(one["self_report"]["ci"][0] > 0 for one in found)
    # By chance one in forty.
    assert np.mean([one["verdict"] == FITS_NEW for one in found]) < 0.06
    held_back = next(one for one in found if one["verdict"] == UNDECIDED)
    assert "what is said of another" in held_back["reason"]
    ahead = shifted(TOWARD * 1.4 + shared, TOWARD + shared + noise(7, 0.1))
    assert ahead["verdict"] == FITS_NEW
    assert ahead["self_minus_other"]["estimate"] == pytest.approx(0.4, abs=0.05)
    width = np.ptp(ahead["self_report"]["ci"])
    assert np.ptp(ahead["self_minus_other"]["ci"]) < width / 10


def test_copies_of_an_item_decide_no_more_than_one_does() -> None:
    copies, n = 8, 5
    groups = np.concatenate([np.repeat(np.arange(n), copies), n + np.repeat(np.arange(n), copies)])
    of_group = np.random.default_rng(1).normal(size=2 * n)
    after = np.repeat([1.0, 0.0], n * copies)
    copied = fit_of(of_group[groups], after, groups)
    alone = fit_of(of_group, np.repeat([1.0, 0.0], n), np.arange(2 * n))
    assert (copied.estimate, copied.low) == pytest.approx((alone.estimate, alone.low))
    assert copied.n_groups == 2 * n
    assert copied.low < fit_of(of_group[groups], after, np.arange(len(groups))).low


@pytest.mark.parametrize(("n_one", "n_zero"), [(5, 5), (5, 15), (20, 20)])
def test_the_interval_covers(n_one: int, n_zero: int) -> None:
    """Standard normal rows alone in their groups; 94% of 1,500 would be 1.6 standard errors under 95%."""
    rng = np.random.default_rng(0)
    after = np.repeat([1.0, 0.0], [n_one, n_zero])
    groups = np.arange(len(after))
    fits = [fit_of(rng.normal(size=len(after)), after, groups) for _ in range(1500)]
    covered = np.mean([fit.low <= 0 <= fit.high for fit in fits])
    assert 0.94 <= covered <= 0.995

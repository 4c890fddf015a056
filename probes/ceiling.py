"""How well could anything predict labels that are themselves drawn at random?

An item is answered in one way with probability p. Someone who knew every p would still lose pairs
to chance: that AUROC on a fresh draw of the labels is the label ceiling. Observed rates vary more
than p does and make it look higher (0.94 for a true 0.83 at two samples an item), so a
beta-binomial distribution is fitted to the counts and the ceiling is that of the fitted beta. It is
a model: p that is far from any beta distribution gives a ceiling that is only roughly right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import betaln, expit, logit
from scipy.stats import f as f_distribution

from probes.splits import group_codes
from probes.uncertainty import FEW_GROUPS, LEVEL, Interval

LARGEST_LOGIT = 10.0
"""Of the intra-class correlation: beyond it p is the same for all items, or always 0 or 1."""
GREEDY_CEILING = 1.0
"""A greedy label is a function of the prompt."""
_STEP = 1e-4
_GRID = (61, 1001)


@dataclass(frozen=True)
class _Counts:
    """Items tallied by (successes, samples), for each group."""

    successes: Int[np.ndarray, "pair"]
    samples: Int[np.ndarray, "pair"]
    items: Float[np.ndarray, "group pair"]


def beta_auroc(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """AUROC of p itself against one draw of every label, for p distributed as Beta(a, b).

    1/2 + E|p - p'| / (4 E[p] (1 - E[p])), with Gini's mean difference E|p - p'| of the beta
    distribution in closed form.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    log_gain = (
        np.log(a + b) - np.log(a) - np.log(b) + betaln(a + b, a + b) - betaln(a, a) - betaln(b, b)
    )
    return np.asarray(0.5 + np.exp(log_gain))


def label_ceiling(successes: ArrayLike, samples: ArrayLike, groups: ArrayLike) -> Interval:
    """Ceiling of labels that are one sampled completion an item, with a clustered 95% interval.

    Labels that are the majority of several samples have a higher one; greedy labels have
    `GREEDY_CEILING`.

    Args:
        successes: completions with label 1, `[item]`.
        samples: completions in all, `[item]` or one number; items with 1 tell of the mean only.
        groups: group of every item `[item]`.

    The interval is that of the profile likelihood, whose ratio is divided by the design effect: the
    sandwich variance of the ceiling over the model's own (Pace, Salvan and Sartori 2011). Where the
    fit is at its bound (all items alike, or all or none of every item's samples) each group counts
    as one item.

    Raises ValueError for counts that are no counts, and where no item has 2 samples.
    """
    counts = _tally(successes, samples, groups)
    total = counts.items.sum(axis=0)
    n_groups = len(counts.items)
    fitted = _fit(counts, total)
    at_bound = abs(fitted[1]) > LARGEST_LOGIT - 0.01
    design_effect = total.sum() / n_groups if at_bound else _design_effect(counts, fitted)
    drop = design_effect * f_distribution.ppf(LEVEL, 1, n_groups - 1) / 2
    low, high = _extremes(counts, total, fitted, drop)
    estimate = _ceiling(fitted)
    return Interval(
        estimate,
        min(low, estimate),
        max(high, estimate),
        "beta-binomial, profile likelihood over the design effect",
        n_groups,
        n_groups < FEW_GROUPS or bool(at_bound),
    )


def _tally(successes: ArrayLike, samples: ArrayLike, groups: ArrayLike) -> _Counts:
    won = np.asarray(successes)
    codes = group_codes(groups)
    if won.shape != codes.shape:
        raise ValueError(
            f"successes has shape {won.shape} and groups {codes.shape}; they must agree"
        )
    drawn = np.broadcast_to(np.asarray(samples), won.shape)
    for name, values in (("successes", won), ("samples", drawn)):
        if not (np.isfinite(values).all() and (values == np.floor(values)).all()):
            raise ValueError(f"{name} must be whole numbers; give counts, not rates")
    if not len(won) or won.min() < 0 or drawn.min() < 1 or (won > drawn).any():
        raise ValueError("successes must lie between 0 and samples, and samples be at least 1")
    if drawn.max() < 2:
        raise ValueError(
            "samples: one completion an item says nothing about its ceiling; sample at least 2"
        )
    if won.sum() in (0, drawn.sum()):
        raise ValueError("successes: all completions have one label, so there is no AUROC")
    if codes.max() < 1:
        raise ValueError("groups: an interval needs at least 2 groups, got 1")
    pairs, pair_of = np.unique(np.stack([won, drawn]).astype(np.int64), axis=1, return_inverse=True)
    items = np.zeros((int(codes.max()) + 1, pairs.shape[1]))
    np.add.at(items, (codes, pair_of.ravel()), 1)
    return _Counts(pairs[0], pairs[1], items)


def _shapes(theta: Float[np.ndarray, "2 ..."]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """a and b of the beta distribution with these logits of mean and intra-class correlation."""
    size = np.exp(-theta[1])
    return np.asarray(expit(theta[0]) * size), np.asarray(expit(-theta[0]) * size)


def _ceiling(theta: Float[np.ndarray, "2"]) -> float:
    return float(beta_auroc(*_shapes(theta)))


def _log_likelihoods(
    counts: _Counts, theta: Float[np.ndarray, "2 ..."]
) -> Float[np.ndarray, "pair ..."]:
    a, b = _shapes(theta)
    shape = (-1,) + (1,) * a.ndim
    won, lost = counts.successes.reshape(shape), (counts.samples - counts.successes).reshape(shape)
    return np.asarray(betaln(won + a, lost + b) - betaln(a, b))


def _fit(counts: _Counts, total: Float[np.ndarray, "pair"]) -> Float[np.ndarray, "2"]:
    mean = (total @ counts.successes) / (total @ counts.samples)
    n_items = total.sum()
    bounds = [(-15.0, 15.0), (-LARGEST_LOGIT, LARGEST_LOGIT)]
    fits = [
        minimize(
            lambda theta: -(total @ _log_likelihoods(counts, theta)) / n_items,
            (logit(mean), start),
            method="L-BFGS-B",
            bounds=bounds,
            options={"ftol": 1e-13, "gtol": 1e-9},
        )
        for start in (-3.0, 0.0, 3.0)
    ]
    return np.asarray(min(fits, key=lambda fit: fit.fun).x)


def _design_effect(counts: _Counts, theta: Float[np.ndarray, "2"]) -> float:
    """Sandwich variance of the ceiling over the inverse information's."""
    steps = _STEP * np.eye(2)

    def slopes(at: Float[np.ndarray, "2"]) -> Float[np.ndarray, "pair 2"]:
        ends = [(_log_likelihoods(counts, at + s), _log_likelihoods(counts, at - s)) for s in steps]
        return np.stack([(up - down) / (2 * _STEP) for up, down in ends], axis=1)

    by_group = counts.items @ slopes(theta)
    total = counts.items.sum(axis=0)
    information = -np.stack(
        [total @ (slopes(theta + s) - slopes(theta - s)) / (2 * _STEP) for s in steps]
    )
    gradient = np.array([_ceiling(theta + s) - _ceiling(theta - s) for s in steps]) / (2 * _STEP)
    influence = np.linalg.solve((information + information.T) / 2, gradient)
    n_groups = len(by_group)
    sandwich = n_groups / (n_groups - 1) * ((by_group @ influence) ** 2).sum()
    return float(sandwich / (gradient @ influence))


def _extremes(
    counts: _Counts,
    total: Float[np.ndarray, "pair"],
    theta: Float[np.ndarray, "2"],
    drop: float,
) -> tuple[float, float]:
    """Least and largest ceiling among parameters whose log-likelihood is within `drop` of the best."""
    mean = expit(theta[0])
    # Four standard errors of a mean of one sample a group: no profile reaches further.
    reach = 4 / np.sqrt(len(counts.items) * mean * (1 - mean))
    grid = np.stack(
        np.meshgrid(
            theta[0] + np.linspace(-reach, reach, _GRID[0]),
            np.linspace(-LARGEST_LOGIT, LARGEST_LOGIT, _GRID[1]),
            indexing="ij",
        )
    )
    likelihood = np.tensordot(total, _log_likelihoods(counts, grid), axes=1)
    kept = likelihood >= total @ _log_likelihoods(counts, theta) - drop
    if not kept.any():
        return _ceiling(theta), _ceiling(theta)
    ceilings = beta_auroc(*_shapes(grid[:, kept]))
    return float(ceilings.min()), float(ceilings.max())

"""Logistic regression of a few columns by Newton's method.

Stacks are fitted by the hundred, on two or three columns each: scikit-learn's checks would take longer than its fit.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit

MAX_STEPS = 100
TOLERANCE = 1e-8
"""Of a step, in log-odds a unit of a column."""


def logistic_weights(
    columns: Float[np.ndarray, "item predictor"], labels: Int[np.ndarray, "item"]
) -> Float[np.ndarray, "predictor"]:
    """Weights that minimize the sum of log losses + |w|^2 / 2, intercept unpenalized.

    `sklearn.linear_model.LogisticRegression` with C = 1 converges to the same.

    Args:
        columns: of about unit scale.
        labels: 0 or 1; ValueError unless there are both.
    """
    rate = float(labels.mean())
    if not 0 < rate < 1:
        raise ValueError(f"labels: all {len(labels)} are {labels[0]}; a fit needs both classes")
    design = np.column_stack([np.ones(len(columns)), columns])
    penalty = np.ones(design.shape[1])
    penalty[0] = 0.0

    def loss_at(weights: Float[np.ndarray, "weight"]) -> float:
        decision = design @ weights
        log_losses = np.logaddexp(0.0, decision) - labels * decision
        return float(log_losses.sum() + penalty @ weights**2 / 2)

    weights = np.zeros(design.shape[1])
    weights[0] = np.log(rate / (1 - rate))
    loss = loss_at(weights)
    for _ in range(MAX_STEPS):
        probability = expit(design @ weights)
        gradient = design.T @ (probability - labels) + penalty * weights
        curvature = (design.T * (probability * (1 - probability))) @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        while np.abs(step).max() > TOLERANCE and loss_at(weights - step) > loss:
            step = step / 2
        if np.abs(step).max() <= TOLERANCE:
            break
        weights = weights - step
        loss = loss_at(weights)
    return np.asarray(weights[1:])

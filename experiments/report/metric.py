"""What a curve or a heat map is drawn in: the key in the results, its name, and where chance lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Metric:
    """A score of predictors."""

    key: str
    """In a row of the results; `ci` beside it is its interval."""
    label: str
    chance: float
    strong: float
    """At least so far goes a color scale, so that noise does not look like signal."""


METRICS = {
    "auroc": Metric("auroc", "AUROC", 0.5, 0.7),
    "spearman": Metric("spearman", "Spearman correlation", 0.0, 0.4),
    "class_auroc": Metric("class_auroc", "AUROC, mean over pairs of classes", 0.5, 0.7),
}


def metric_of(result: Mapping[str, Any]) -> Metric:
    """The metric that a result's curves are in: `result["metric"]`, by default the AUROC.

    Raises:
        ValueError: a metric of another name.
    """
    key = result.get("metric", "auroc")
    if key not in METRICS:
        raise ValueError(f"metric: unknown {key!r}; choose one of {', '.join(METRICS)}")
    return METRICS[key]

"""Intervals, differences and cells as `results.json` holds them."""

from __future__ import annotations

from typing import Any

from activations_cache import Cell
from experiments.records import json_number
from probes import Interval


def interval_json(interval: Interval, estimand: str) -> dict[str, Any]:
    """An AUROC with its 95% interval, and of what it is an estimate."""
    return {
        "auroc": json_number(interval.estimate),
        "ci": [json_number(interval.low), json_number(interval.high)],
        "estimand": estimand,
        "approximate": interval.approximate,
    }


def gap_json(interval: Interval) -> dict[str, Any]:
    """A paired difference with its 95% interval."""
    return {
        "estimate": json_number(interval.estimate),
        "ci": [json_number(interval.low), json_number(interval.high)],
    }


def cell_json(chosen: tuple[Cell, float]) -> dict[str, Any]:
    """The cell that was chosen most often, and its usual penalty."""
    (site, layer, position), alpha = chosen
    return {"site": site, "layer": layer, "position": position, "alpha": alpha}

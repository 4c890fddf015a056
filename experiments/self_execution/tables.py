"""Scores of released results as Markdown tables, as rows of a CSV file, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from experiments.records import json_number
from experiments.report.formatting import estimate
from experiments.self_execution.published import Comparison
from experiments.self_execution.yes_no import Compared
from probes import Interval


def shown(interval: Interval, *, signed: bool = False) -> str:
    """`0.86 [0.82, 0.90]`."""
    return estimate(interval.estimate, (interval.low, interval.high), signed=signed)


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up."""
    rows = [head, *body]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(head), rule, *map(line, body)]) + "\n"


def beaten(gaps: Sequence[Interval]) -> dict[str, int]:
    """How many models' self-predictions a rival beats, from the differences self minus rival: by the estimate, and by
    intervals that exclude 0 either way.
    """
    return {
        "models": len(gaps),
        "rival_higher": sum(gap.estimate < 0 for gap in gaps),
        "rival_decidedly": sum(gap.high < 0 for gap in gaps),
        "self_decidedly": sum(gap.low > 0 for gap in gaps),
    }


def beaten_sentence(rival: str, counts: Mapping[str, int], score: str = "") -> str:
    """The counts of `beaten` in words."""
    return (
        f"Against {rival}{score}: the self-prediction is worse for {counts['rival_higher']} of {counts['models']} "
        f"models, by an interval that excludes 0 for {counts['rival_decidedly']}; "
        f"decidedly better for {counts['self_decidedly']}."
    )


def interval_json(interval: Interval) -> dict[str, Any]:
    """An interval, for `--json`."""
    return {
        "estimate": json_number(interval.estimate),
        "ci": [json_number(interval.low), json_number(interval.high)],
        "n_groups": interval.n_groups,
        "approximate": interval.approximate,
    }


def compared_json(compared: Compared) -> dict[str, Any]:
    """Every score of every predictor, for `--json`."""
    return {
        "n_items": compared.n_items,
        "n_groups": compared.n_groups,
        "scores": _nested_json(compared.scores),
        "self_minus": _nested_json(compared.self_minus),
    }


def compared_rows(compared: Compared) -> list[dict[str, Any]]:
    """A row a predictor, for `--csv`; differences are those of the self-prediction minus it."""
    rows = []
    for predictor, scores in compared.scores.items():
        row: dict[str, Any] = {
            "predictor": predictor,
            "n_items": compared.n_items,
            "n_groups": compared.n_groups,
        }
        for name, interval in scores.items():
            row |= interval_cells(name, interval)
        for name, gap in compared.self_minus.get(predictor, {}).items():
            row |= interval_cells(f"self_minus_{name}", gap)
        rows.append(row)
    return rows


def interval_cells(name: str, interval: Interval | None) -> dict[str, float | None]:
    """An interval as three cells of a row; empty without one."""
    values = (None,) * 3 if interval is None else (interval.estimate, interval.low, interval.high)
    cells = (None if value is None else json_number(value) for value in values)
    return dict(zip((name, f"{name}_low", f"{name}_high"), cells, strict=True))


def exact(value: float | str) -> float | str | None:
    """A published metric as JSON can hold it, in full: None for not-a-number."""
    return value if isinstance(value, str) or isfinite(value) else None


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison with the published figures, for `--json`."""
    return {
        "equal": comparison.n_equal,
        "cells_equal": comparison.n_cells_equal,
        "unexplained": comparison.n_unexplained,
        "differences": [
            {
                "model": one.model,
                "metric": one.metric,
                "published": exact(one.published),
                "ours": exact(one.ours),
                "reason": one.reason or "unexplained",
            }
            for one in comparison.differences
        ],
        "not_compared": list(comparison.not_compared),
    }


def _nested_json(intervals: Mapping[str, Mapping[str, Interval]]) -> dict[str, Any]:
    return {
        outer: {name: interval_json(one) for name, one in inner.items()}
        for outer, inner in intervals.items()
    }

"""Scores of released results as Markdown tables, as rows of a CSV file, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from experiments.records import json_number
from experiments.report.formatting import estimate
from experiments.self_execution.published import Comparison
from experiments.self_execution.shares import Shares
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


def shares_table(
    head: Sequence[str], rows: Sequence[tuple[Sequence[str], Shares]], named: Mapping[str, str]
) -> str:
    """The share of every predictor, and the lead of the self-prediction over the first of the others.

    Args:
        head: of the first cells of a row.
        rows: a model's first cells, and its shares.
        named: the predictors' names.
    """
    predictors = list(rows[0][1].share)
    rival = next(iter(rows[0][1].self_minus))
    return markdown(
        [*head, *(named[name] for name in predictors), f"own minus {named[rival]}"],
        [
            [
                *cells,
                *(shown(shares.share[name]) for name in predictors),
                shown(shares.self_minus[rival], signed=True),
            ]
            for cells, shares in rows
        ],
    )


def chance_corrected_table(
    rows: Sequence[tuple[str, Compared]], constant: str, named: Mapping[str, str]
) -> str:
    """Kappa of every predictor but the constant one, and three more scores of the self-prediction.

    Args:
        rows: models, and their scores.
        constant: the predictor that always says the same, whose kappa is 0.
        named: the predictors' names.
    """
    predictors = [name for name in rows[0][1].scores if name != constant]
    own = {"balanced_accuracy": "balanced accuracy", "d_prime": "d-prime", "criterion": "criterion"}
    return markdown(
        ["model", *(f"{named[name]}, kappa" for name in predictors), *own.values()],
        [
            [
                model,
                *(shown(compared.scores[name]["kappa"]) for name in predictors),
                *(shown(compared.scores["self"][score]) for score in own),
            ]
            for model, compared in rows
        ],
    )


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


def beaten_by(shares: Sequence[Shares]) -> dict[str, dict[str, int]]:
    """`beaten`, by rival."""
    return {
        rival: beaten([one.self_minus[rival] for one in shares]) for rival in shares[0].self_minus
    }


def beaten_sentence(rival: str, counts: Mapping[str, int], score: str = "") -> str:
    """The counts of `beaten` in words."""
    return (
        f"Against {rival}{score}: the self-prediction is worse for {counts['rival_higher']} of {counts['models']} "
        f"models, by an interval that excludes 0 for {counts['rival_decidedly']}; "
        f"decidedly better for {counts['self_decidedly']}."
    )


def unread_lines(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What of a model's file could not be read, or was not counted: a line a model that has any.

    Args:
        counts: by model, then by name (`n_unparsed_rows`).
    """
    return [
        f"{model}: "
        + ", ".join(
            f"{n} {name.removeprefix('n_').replace('_', ' ')}" for name, n in of.items() if n
        )
        for model, of in counts.items()
        if any(of.values())
    ]


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


def shares_json(shares: Shares, measure: str) -> dict[str, Any]:
    """The shares of every predictor under the name of what they measure, for `--json`."""
    return {
        "n_items": shares.n_items,
        measure: _intervals_json(shares.share),
        "self_minus": _intervals_json(shares.self_minus),
    }


def shares_rows(shares: Shares, measure: str) -> list[dict[str, Any]]:
    """A row a predictor, for `--csv`."""
    return [
        {
            "predictor": name,
            "n_items": shares.n_items,
            "n_groups": share.n_groups,
            **interval_cells(measure, share),
            **interval_cells("self_minus", shares.self_minus.get(name)),
        }
        for name, share in shares.share.items()
    ]


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
    return {outer: _intervals_json(inner) for outer, inner in intervals.items()}


def _intervals_json(intervals: Mapping[str, Interval]) -> dict[str, Any]:
    return {name: interval_json(one) for name, one in intervals.items()}

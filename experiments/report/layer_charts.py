"""The charts over layers of one task: the probe in both contexts, and the race of probe and words at the slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.report.chart import Chart, Level, Point, Series, Upright, layer_chart
from experiments.report.formatting import estimate
from experiments.report.layers import CONTEXTS, has_layers, selected_position
from experiments.report.metric import METRICS, metric_of
from experiments.report.predictors import result_row
from experiments.report.style import LOOKS


def curves_chart(task_result: Mapping[str, Any]) -> Chart | None:
    """The probe's score by layer in both contexts, as `plot_layers`; None at a site without layers."""
    if not has_layers(task_result):
        return None
    curves, metric = task_result["curves"], metric_of(task_result)
    series, points = [], []
    for context, (name, where) in CONTEXTS.items():
        by_position, row = curves.get(context) or {}, task_result.get(name) or {}
        if not by_position:
            continue
        selected = selected_position(by_position, row)
        series += [
            Series(position, name, values, thin=True)
            for position, values in by_position.items()
            if position != selected
        ]
        series.append(Series(f"probe, {where} ({selected})", name, by_position[selected]))
        if row.get(metric.key) is not None and row.get("layer") is not None:
            points.append(Point(name, row["layer"], row[metric.key], row.get("ci")))
    levels = [
        Level(
            f"{LOOKS[name].label} {estimate(row[metric.key], row.get('ci'))}", name, row[metric.key]
        )
        for name in ("text", "verbal")
        if (row := result_row(task_result, name)).get(metric.key) is not None
    ]
    if curves.get("null_max") is not None:
        levels.append(Level("permuted: 95% of grid maxima lie below", "null", curves["null_max"]))
    return layer_chart(
        "Layer by layer",
        curves["layers"],
        sorted(series, key=lambda one: not one.thin),
        x_label=f"layer ({(task_result.get('probe') or {}).get('site', 'residual stream')})",
        metric=metric,
        band=curves.get("null_band"),
        band_name="labels permuted by group: 95% band",
        levels=levels,
        points=points,
        first=(task_result.get("probe") or {}).get("layer"),
    )


RACERS = {
    "task": ("probe, task prompt", "probe"),
    "slot": ("probe, answer slot", "report_probe"),
    "words": ("words, by the logit lens", "verbal"),
    "transferred": ("task probe, moved to the answer slot", "transferred_probe"),
}
"""Predictor of `by_layer` -> its name and look."""

_RISES = {"probe": "slot", "words": "words"}
"""Key of `half_rise` -> the predictor that rises."""


def race_chart(location: Mapping[str, Any]) -> Chart | None:
    """What is read at each layer by probes, and by the words through the logit lens; the layers of half their rise.

    Args:
        location: the task's entry in `locate.json`; None where it holds fewer than two layers.
    """
    layers, by_layer = location.get("layers") or [], location.get("by_layer") or []
    if len(layers) < 2:
        return None
    half = (location.get("race") or {}).get("half_rise") or {}
    return layer_chart(
        "The race of layers",
        layers,
        [
            Series(
                name,
                look,
                [row[key] for row in by_layer],
                cis=[(row.get("ci") or {}).get(key) for row in by_layer],
            )
            for key, (name, look) in RACERS.items()
            if all(key in row for row in by_layer)
        ],
        metric=METRICS["auroc"],
        uprights=[
            Upright(
                f"half of its rise, {RACERS[key][0]}: layer {half[of]}", RACERS[key][1], half[of]
            )
            for of, key in _RISES.items()
            if half.get(of) is not None
        ],
    )

"""The charts over layers of one task: the probe in both contexts, and the race of probe and words at the slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.report.chart import Chart, Level, Point, Series, Upright, layer_chart
from experiments.report.formatting import bracket, estimate, number
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
    "probe": ("probe at the answer slot", "report_probe"),
    "words": ("words, by the logit lens", "verbal"),
}
"""Key of `race` -> its name and look."""


def race_chart(location: Mapping[str, Any]) -> Chart | None:
    """Probe and verbal log-odds at the answer slot, layer by layer, with the layers of half their rise.

    Args:
        location: the task's entry in `locate.json`; None where it holds no race.
    """
    race, layers = location.get("race") or {}, location.get("layers") or []
    series = [
        Series(name, look, race[key]) for key, (name, look) in RACERS.items() if race.get(key)
    ]
    if len(layers) < 2 or not series:
        return None
    moved = [row.get("transferred") for row in location.get("by_layer") or []]
    if len(moved) == len(layers) and any(value is not None for value in moved):
        series.append(Series("task probe, moved to the slot", "transferred_probe", moved))
    half = race.get("half_rise") or {}
    return layer_chart(
        "The race of layers",
        layers,
        series,
        metric=METRICS["auroc"],
        uprights=[
            Upright(
                f"half of the lead of the {RACERS[key][0]}: layer {number(half[key], decimals=0)}",
                look,
                half[key],
            )
            for key, (_, look) in RACERS.items()
            if half.get(key) is not None
        ],
    )


def race_sentence(location: Mapping[str, Any]) -> str:
    """Who reaches half of its own lead first, and by how many layers; empty where that is not known."""
    half = (location.get("race") or {}).get("half_rise") or {}
    difference = half.get("difference") or {}
    if half.get("probe") is None or half.get("words") is None:
        return ""
    sentence = (
        f"Half of its own lead is reached by the probe at layer {number(half['probe'], decimals=0)} and by the words "
        f"at layer {number(half['words'], decimals=0)}"
    )
    if difference.get("estimate") is None:
        return sentence + "."
    apart = f"{number(difference['estimate'], signed=True, decimals=1)} {bracket(difference.get('ci'))}".strip()
    return f"{sentence}: words minus probe {apart} layers."

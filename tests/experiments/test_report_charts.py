from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from experiments.report.chart import Chart, Level, Point, Series, Upright, layer_chart
from experiments.report.formatting import MISSING
from experiments.report.layer_charts import curves_chart, race_chart
from experiments.report.metric import METRICS
from tests.experiments import made_up_results as made_up

AUROC = METRICS["auroc"]


def points(path: str) -> np.ndarray:
    """The corners `[n, 2]` of a path of an SVG."""
    return np.array(re.findall(r"[ML]([\d.]+) ([\d.]+)", path), dtype=float)


def height_of(chart: Chart, value: float) -> float:
    """Where a value lies by the ticks of the axis alone."""
    ticks = np.array([[float(label), y] for y, label in chart.y_ticks])
    slope, start = np.polyfit(ticks[:, 0], ticks[:, 1], 1)
    return float(start + slope * value)


def test_lines_levels_and_points_lie_where_the_axes_say() -> None:
    values = [0.5, 0.62, 0.81, 0.77]
    chart = layer_chart(
        "a chart",
        [0, 2, 4, 6],
        [Series("one", "probe", values)],
        metric=AUROC,
        band=[[0.42, 0.58]] * 4,
        band_name="null",
        levels=[Level("text", "text", 0.7)],
        points=[Point("probe", 4, 0.79, [0.74, 0.84])],
        uprights=[Upright("half", "probe", 2)],
    )
    ticks = {float(label): x for x, label in chart.x_ticks}
    line = points(chart.lines[0][1])
    assert_allclose(line[:, 1], [height_of(chart, value) for value in values], atol=0.1)
    assert_allclose(line[:, 0], [ticks[layer] for layer in (0, 2, 4, 6)], atol=0.1)
    assert chart.levels[0][1] == pytest.approx(height_of(chart, 0.7), abs=0.1)
    _, x, y, low, high = chart.points[0]
    assert (x, y) == (pytest.approx(ticks[4]), pytest.approx(height_of(chart, 0.79), abs=0.1))
    assert (low, high) == (
        pytest.approx(height_of(chart, 0.74), abs=0.1),
        pytest.approx(height_of(chart, 0.84), abs=0.1),
    )
    assert chart.uprights[0][1] == ticks[2]
    band = points(chart.band)
    assert_allclose(
        sorted(set(band[:, 1])), [height_of(chart, 0.58), height_of(chart, 0.42)], atol=0.1
    )
    lefts = np.array([column.left for column in chart.columns])
    rights = lefts + [column.width for column in chart.columns]
    assert_allclose(lefts[1:], rights[:-1], atol=0.11)
    assert (lefts[0], rights[-1]) == (chart.left, pytest.approx(chart.right))
    assert chart.columns[chart.first].layer == 6


def test_a_layer_without_a_value_is_a_gap_and_a_dash() -> None:
    series = Series("one", "probe", [0.6, None, 0.7, 0.8], cis=[[0.5, 0.7], None, None, [0.7, 0.9]])
    chart = layer_chart("a chart", [0, 1, 2, 3], [series], metric=AUROC, first=2)
    path = chart.lines[0][1]
    assert (path.count("M"), len(points(path))) == (2, 3)
    assert [row[1] for row in chart.values.rows] == [
        "0.60 [0.50, 0.70]",
        MISSING,
        "0.70",
        "0.80 [0.70, 0.90]",
    ]
    assert [column.told for column in chart.columns][:2] == [
        "layer 0: one 0.60 [0.50, 0.70]",
        f"layer 1: one {MISSING}",
    ]
    assert chart.columns[chart.first].layer == 2
    assert "highest 0.80 at layer 3" in chart.description


def test_one_layer_alone_is_drawn_in_the_middle() -> None:
    chart = layer_chart("a chart", [7], [Series("one", "probe", [0.5])], metric=AUROC)
    assert chart.columns[0].middle == (chart.left + chart.right) / 2
    assert len(chart.y_ticks) >= 2


def test_the_curves_of_a_task_are_told_at_the_selected_positions() -> None:
    result = made_up.task_result()
    chart = curves_chart(result)
    assert chart is not None
    told = [(one.look, one.values) for one, _ in chart.lines if not one.thin]
    assert told == [
        ("probe", result["curves"]["task"]["prompt_last"]),
        ("report_probe", result["curves"]["self_prediction"]["prompt_last"]),
    ]
    assert sum(one.thin for one, _ in chart.lines) == 5
    assert [level.look for level, _ in chart.levels] == ["text", "verbal", "null"]
    assert [point.layer for point, *_ in chart.points] == [17, 21]
    assert chart.values.heads[-1] == "labels permuted by group: 95% band"
    result["curves"]["layers"] = [None]
    assert curves_chart(result) is None


def test_the_race_has_probes_words_and_the_layers_of_half_their_rise() -> None:
    location = made_up.location()
    chart = race_chart(location)
    assert chart is not None
    assert [one.look for one, _ in chart.lines] == [
        "probe",
        "report_probe",
        "verbal",
        "transferred_probe",
    ]
    assert chart.lines[2][0].values == location["race"]["words"]
    assert [(one.look, one.layer) for one, _ in chart.uprights] == [
        ("report_probe", 11),
        ("verbal", 20),
    ]
    for row in location["by_layer"]:
        row.pop("words")
    wordless = race_chart(location | {"race": None})
    assert wordless is not None
    assert len(wordless.lines) == 3
    assert wordless.uprights == ()
    assert race_chart({}) is None

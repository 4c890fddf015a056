"""Figures of a probe of own labels: what is drawn is what the results say, also with few layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from experiments.labeled.figures import write_labeled_figures
from experiments.report import plot_layers, plot_sample_efficiency
from experiments.report.confusion import plot_confusion
from experiments.report.heatmap import HeatPanel, heatmap_size, plot_heat_panels
from experiments.report.layers import layer_ticks
from experiments.report.metric import METRICS, metric_of
from experiments.report.predictors import plot_predicted_values, plot_reliability
from experiments.report.style import save, styled

SITE = "resid_post"


def result(layers: list[int], metric: str = "auroc", kind: str = "binary") -> dict[str, Any]:
    rng = np.random.default_rng(0)
    low, high = (0.4, 0.9) if metric == "auroc" else (-0.2, 0.6)
    grid = {
        position: rng.uniform(low, high, len(layers)).round(3).tolist()
        for position in ("instruction_last", "prompt_last")
    }
    probe = {"site": SITE, "layer": layers[-1], "position": "prompt_last"}
    return {
        "kind": kind,
        "metric": metric,
        "n_groups": 40,
        "probe": probe | {metric: 0.55, "ci": [0.5, 0.6]},
        "baselines": {"text": {metric: 0.52, "ci": [0.5, 0.54]}},
        "curves": {
            SITE: {
                "layers": layers,
                "task": grid,
                "null_band": [[low, high]] * len(layers),
                "null_band_position": "prompt_last",
                "null_max": high,
            }
        },
        "sample_efficiency": {
            "groups": [8, 16, 32],
            "auroc": [0.55, 0.6, 0.7],
            "ci": [[0.5, 0.6], [0.52, 0.7], [0.6, 0.8]],
            "draws": [[0.5, 0.6], [0.55, 0.65], [0.68, 0.72]],
        },
    }


def scores(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    label = np.arange(n) % 2
    return pd.DataFrame(
        {
            "label": label,
            "probe": rng.normal(size=n) + label,
            "probe_probability": rng.random(n),
            "text_probability": rng.random(n),
        }
    )


def panel(layers: list[int], grid: dict[str, list[float]], **row: Any) -> HeatPanel:
    return HeatPanel("here", layers, grid, row)


def drawn(*panels: HeatPanel) -> list[Any]:
    figure = Figure(figsize=heatmap_size(panels))
    plot_heat_panels(figure, panels)
    return figure.axes[: len(panels)]


def test_every_cell_of_the_heat_map_has_its_number_and_the_selected_one_a_frame() -> None:
    grid = {"a": [0.51, 0.62, 0.73], "b": [0.44, float("nan"), 0.95]}
    (ax,) = drawn(panel([2, 4, 9], grid, auroc=0.7, ci=[0.6, 0.8], layer=4, position="b"))
    assert [text.get_text() for text in ax.texts] == [".51", ".62", ".73", ".44", ".95"]
    assert {patch.get_xy() for patch in ax.patches} == {(3.0, 1)}
    assert "layer 4; nested 0.70 [0.60, 0.80]" in ax.get_title()
    assert ax.get_xticks().tolist() == [2, 4, 9]


def test_a_number_can_be_read_on_its_color() -> None:
    (ax,) = drawn(panel([0, 1], {"a": [0.5, 0.95]}))
    assert [text.get_color() for text in ax.texts] == ["white", "#222222"]


def test_a_heat_map_without_room_or_selection_has_no_numbers_and_no_frame() -> None:
    (ax,) = drawn(panel(list(range(90)), {"a": [0.5] * 90}, layer=None))
    assert not ax.texts
    assert not ax.patches
    assert ax.get_title() == "here"


def test_panels_share_one_color_scale_with_chance_in_it() -> None:
    first, second = drawn(panel([0, 1], {"a": [0.6, 0.62]}), panel([0, 1], {"a": [0.7, 0.97]}))
    limits = {ax.collections[0].get_clim() for ax in (first, second)}
    assert limits == {(0.5, 0.97)}


@pytest.mark.parametrize("layers", [[7], [7, 8], [0, 11, 20], list(range(8)), list(range(30))])
def test_layers_are_ticked_at_layers(layers: list[int]) -> None:
    ticks = layer_ticks(np.asarray(layers, dtype=float))
    assert set(ticks) <= set(range(layers[0], layers[-1] + 1))
    assert set(ticks) == set(layers) if len(layers) <= 8 else 4 <= len(ticks) <= 12
    shown = result(layers)
    ax = plot_layers(
        {"curves": shown["curves"][SITE], "probe": shown["probe"], "baselines": None},
        Figure().subplots(),
    )
    assert ax.get_xticks().tolist() == ticks.tolist()


def test_one_layer_is_a_point_over_a_band_that_can_be_seen() -> None:
    shown = result([7])
    ax = plot_layers(
        {"curves": shown["curves"][SITE], "probe": shown["probe"]}, Figure().subplots()
    )
    (band,) = ax.collections[:1]
    assert np.ptp(band.get_paths()[0].vertices[:, 0]) == 1
    curve = next(line for line in ax.lines if line.get_label().startswith("probe, task"))
    assert curve.get_marker() == "o"


def test_curves_are_in_the_metric_of_the_result() -> None:
    shown = result([0, 1, 2], metric="spearman")
    ax = plot_layers(
        {"metric": "spearman", "curves": shown["curves"][SITE], "probe": shown["probe"]}
        | {"baselines": shown["baselines"]},
        Figure().subplots(),
    )
    assert ax.get_ylabel() == "Spearman correlation"
    assert [text.get_text() for text in ax.texts] == ["text alone\n0.52 [0.50, 0.54]"]
    assert any(set(line.get_ydata()) == {0.0} for line in ax.lines)
    assert metric_of({}) is METRICS["auroc"]
    with pytest.raises(ValueError, match="metric: unknown 'f1'; choose one of auroc, spearman"):
        metric_of({"metric": "f1"})


def test_the_sample_efficiency_curve_shows_mean_interval_draws_and_what_it_owes() -> None:
    ax = Figure().subplots()
    plot_sample_efficiency(ax, result([0]))
    lines = {line.get_label(): line for line in ax.lines}
    mean = lines["probe, mean and 95% interval (approximate)"]
    np.testing.assert_array_equal(mean.get_xydata(), [[8, 0.55], [16, 0.6], [32, 0.7]])
    assert len(lines["one draw of groups"].get_xdata()) == 6
    assert set(lines["text alone, all training groups"].get_ydata()) == {0.52}
    assert [label.get_text() for label in ax.get_xticklabels()] == ["8", "16", "32"]
    assert "never on the\ntest fold" in ax.get_xlabel()


def test_reliability_has_a_panel_a_predictor() -> None:
    figure = Figure()
    plot_reliability(figure, scores().rename(columns={"label": "outcome"}), ["probe", "text"])
    titles = [ax.get_title() for ax in figure.axes[:2]]
    assert titles == ["probe\n10 bins of 6 items", "text alone\n10 bins of 6 items"]


def test_predicted_values_are_drawn_item_by_item_and_in_bins() -> None:
    ax, table = Figure().subplots(), scores()
    plot_predicted_values(ax, table["label"], table["probe"])
    _, items, bins = ax.lines
    np.testing.assert_array_equal(items.get_xdata(), table["probe"])
    assert np.mean(bins.get_ydata()) == pytest.approx(0.5)


def test_confusions_are_shares_of_every_class() -> None:
    ax = Figure().subplots()
    plot_confusion(ax, [[30, 10], [5, 15]], {"comply": 40, "refuse": 20})
    assert [text.get_text() for text in ax.texts] == ["0.75", "0.25", "0.25", "0.75"]
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["comply (40)", "refuse (20)"]


def test_long_and_strange_names_of_classes_leave_room_for_the_matrix(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    with styled():
        figure = Figure(figsize=(5, 4), layout="constrained")
        ax = figure.subplots()
        plot_confusion(ax, [[30, 10], [5, 15]], ["x" * 3000, "\N{CJK UNIFIED IDEOGRAPH-672C}\n$a$"])
        save(figure, tmp_path / "confusion")
    assert [str(warning.message) for warning in recwarn] == []
    assert ax.get_position().width > 0.3
    assert ax.get_yticklabels()[0].get_text() == "x" * 23 + "\N{HORIZONTAL ELLIPSIS} (40)"


@pytest.mark.parametrize(
    ("metric", "kind", "own"),
    [
        ("auroc", "binary", {"reliability", "sample_efficiency"}),
        ("spearman", "rate", {"predicted"}),
    ],
)
def test_figures_are_written_as_png_and_svg_of_the_same_bytes_each_time(
    tmp_path: Path, metric: str, kind: str, own: set[str]
) -> None:
    shown = result([0, 1, 2], metric, kind) | (
        {} if kind == "binary" else {"sample_efficiency": None}
    )
    first, second = (
        write_labeled_figures(shown, scores(), tmp_path / name) for name in ("first", "second")
    )
    assert set(first) == {f"layers_{SITE}", f"heatmap_{SITE}", *own}
    for name, svg in first.items():
        for suffix in (".svg", ".png"):
            again = second[name].with_suffix(suffix)
            assert svg.with_suffix(suffix).read_bytes() == again.read_bytes()
        with Image.open(svg.with_suffix(".png")) as image:
            assert np.asarray(image.convert("L")).min() < 128

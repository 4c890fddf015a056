from __future__ import annotations

from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from PIL import Image

from experiments.report import plot_layers, write_figures
from experiments.report.figures import new_figure
from experiments.report.layers import selected_position, spread
from experiments.report.predictors import forest_rows, reliability_bins, roc_points
from tests.experiments import made_up_results as made_up


def same_fold_auroc(outcome: np.ndarray, score: np.ndarray, fold: np.ndarray) -> float:
    wins, pairs = 0.0, 0
    for i in np.flatnonzero(outcome == 1):
        for j in np.flatnonzero((outcome == 0) & (fold == fold[i])):
            wins += float(score[i] > score[j]) + 0.5 * float(score[i] == score[j])
            pairs += 1
    return wins / pairs


def test_the_area_under_the_roc_curve_is_the_auroc_over_same_fold_pairs() -> None:
    rng = np.random.default_rng(3)
    fold = np.repeat([0, 1, 2], [30, 50, 20])
    outcome = (rng.random(100) < 0.4).astype(int)
    score = np.round(outcome + rng.normal(size=100), 1) + 5.0 * fold
    false, true = roc_points(outcome, score, fold)
    assert_allclose(np.trapezoid(true, false), same_fold_auroc(outcome, score, fold), atol=1e-6)


def test_a_roc_curve_needs_both_outcomes_in_a_fold() -> None:
    false, true = roc_points(np.array([1, 1, 0]), np.arange(3.0), np.array([0, 0, 1]))
    assert len(false) == len(true) == 0


def test_reliability_bins_have_equal_mass() -> None:
    probability = np.linspace(0.005, 0.995, 100)
    outcome = (np.arange(100) >= 50).astype(float)
    bins = reliability_bins(probability, outcome, n_bins=4)
    assert [b.count for b in bins] == [25, 25, 25, 25]
    assert [b.observed for b in bins] == [0.0, 0.0, 1.0, 1.0]
    assert_allclose([b.predicted for b in bins], [0.125, 0.375, 0.625, 0.875])


def test_items_of_equal_probability_share_a_bin() -> None:
    probability = np.repeat([0.3, 0.7], [60, 40])
    bins = reliability_bins(probability, probability)
    assert [(b.predicted, b.count) for b in bins] == [
        (pytest.approx(0.3), 60),
        (pytest.approx(0.7), 40),
    ]
    assert reliability_bins(np.array([]), np.array([])) == []


def test_labels_that_collide_are_moved_apart() -> None:
    assert spread([0.2, 0.8], gap=0.1) == [0.2, 0.8]
    assert_allclose(spread([0.52, 0.5], gap=0.1), [0.56, 0.46])
    assert_allclose(spread([0.5, 0.5, 0.55], gap=0.1), [0.5166667 - 0.1, 0.5166667, 0.6166667])
    assert spread([], gap=0.1) == []


def test_the_curve_shown_is_at_the_selected_position() -> None:
    curves = {"a": [0.5, 0.9], "b": [0.6, 0.7], "c": [None, None]}
    assert selected_position(curves, {"position": "b"}) == "b"
    assert selected_position(curves, {}) == "a"


def test_the_forest_leaves_out_what_was_not_scored() -> None:
    result = made_up.task_result()
    result["verbal"]["auroc"] = None
    names = [row.name for row in forest_rows(result)]
    assert names[:3] == ["probe", "probe at the answer slot", "task probe, moved there"]
    assert "words" not in names
    assert "tfidf words" in names
    assert not any("other model" in name for name in names)
    result["peer"] = made_up.peer(0.8)
    of_peer = [row.name for row in forest_rows(result)[len(names) :]]
    assert of_peer == ["probe of the other model", "what the other model did"]


def test_plot_layers_draws_the_curves_on_the_given_axes_and_leaves_matplotlib_alone() -> None:
    before = dict(mpl.rcParams)
    result = made_up.task_result()
    axes = Figure().subplots()
    assert plot_layers(result, axes) is axes
    drawn = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]
    for context, position in (("task", "prompt_last"), ("self_prediction", "prompt_last")):
        curve = np.array(result["curves"][context][position])
        assert any(np.array_equal(curve, line) for line in drawn)
    written = [text.get_text() for text in axes.texts]
    assert written == ["text alone\n0.76 [0.71, 0.81]", "words\n0.51 [0.46, 0.56]"]
    assert dict(mpl.rcParams) == before


def test_figures_are_png_and_svg_of_the_same_bytes_each_time(tmp_path: Path) -> None:
    results, scores = made_up.results(refusal=made_up.task_result()), made_up.scores("refusal")
    first = write_figures(results, scores, tmp_path / "first")
    second = write_figures(results, scores, tmp_path / "second")
    assert list(first["refusal"]) == ["layers", "heatmap", "roc", "reliability", "predictors"]
    for name, svg in first["refusal"].items():
        again = second["refusal"][name]
        assert ElementTree.parse(svg).getroot().tag.endswith("svg")
        for suffix in (".svg", ".png"):
            one, two = svg.with_suffix(suffix), again.with_suffix(suffix)
            assert one.read_bytes() == two.read_bytes()
        with Image.open(svg.with_suffix(".png")) as picture:
            assert round(picture.info["dpi"][0]) == 200


def test_a_notebook_shows_a_figure_that_pyplot_knows_nothing_of() -> None:
    figure = new_figure(3, 2)
    figure.subplots().plot([0, 1])
    shown = DisplayFormatter().format(figure)[0]["image/png"]
    width, height = Image.open(BytesIO(shown)).size
    assert width > height > 100


def test_missing_columns_curves_and_rows_leave_gaps_and_no_error(tmp_path: Path) -> None:
    result = made_up.task_result()
    result["verbal"] = {"auroc": None, "ci": None}
    result["report_probe"] = None
    result["curves"] |= {"self_prediction": {}, "null_band": None, "null_max": None}
    result["curves"]["task"]["prompt_last"][4] = None
    scores = made_up.scores("refusal").drop(columns=["report_probe", "fold"])
    scores[["verbal", "verbal_probability", "verbal_answer"]] = np.nan
    paths = write_figures(made_up.results(refusal=result), scores, tmp_path)
    assert all(path.is_file() for path in paths["refusal"].values())


def test_a_site_without_layers_has_no_curves_over_them(tmp_path: Path) -> None:
    results = made_up.results(refusal=made_up.task_result())
    results["tasks"]["refusal"]["curves"]["layers"] = [None]
    paths = write_figures(results, made_up.scores("refusal"), tmp_path)
    assert set(paths["refusal"]) == {"roc", "reliability", "predictors"}
    with pytest.raises(ValueError, match="site of this run has none"):
        plot_layers(results["tasks"]["refusal"])


def test_a_skipped_task_has_no_figures(tmp_path: Path) -> None:
    results = made_up.results(refusal={"task": "refusal", "skipped": "one class is empty"})
    assert write_figures(results, pd.DataFrame(), tmp_path) == {}
    assert list(tmp_path.iterdir()) == []

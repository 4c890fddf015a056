"""From result files to table and figures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.records import write_json
from experiments.self_prediction.cells import Cell, plan_cells
from experiments.self_prediction.figure import write_comparison_figures
from experiments.self_prediction.folder import ComparisonFolder
from experiments.self_prediction.material import Material, MaterialFolder, held_out_of
from experiments.self_prediction.predicted import Predicted
from experiments.self_prediction.table import results_of, table_markdown, table_rows
from tests.experiments.self_prediction.planted import (
    labeled_items,
    planted_material,
    teach_config,
)

STRENGTH = {"words": 0.0, "text": 0.5, "sft": 1.0, "rl": 0.8}


def made_up(cell: Cell, material: dict[str, Material]) -> dict[str, Any]:
    """The result file of a cell whose predictions are as good as its method."""
    rng = np.random.default_rng([sum(map(ord, cell.name))])
    in_words = cell.method in ("words", "sft", "rl")
    predicted = {}
    tests = {test: items for test, (_, items) in held_out_of(material, cell.task).items()}
    if in_words:
        tests["other_wording"] = tests["held_out_groups"]
    for test, items in tests.items():
        truth = items.outcome * (cell.labels in ("none", "true"))
        strength = STRENGTH.get(cell.method, 1.5) + 0.3 * np.log(cell.size)
        score = rng.standard_normal(len(items)) + strength * truth
        said = Predicted.of_probability(1 / (1 + np.exp(-score)), 0.002)
        if cell.method == "words":
            half = tuple(one if i % 2 else None for i, one in enumerate(said.answer))
            said = Predicted(said.score, said.probability, half, 0.02)
        predicted[test] = said.to_json()
    takes_steps = cell.method not in ("words", "probe", "text")
    trained = {"steps": 20, "seconds_per_step": 0.5, "peak_memory": None} if takes_steps else None
    return {
        "predicted": predicted,
        "n_train": 0 if cell.method == "words" else 40 * cell.size,
        "n_validation": 10,
        "seconds": 12.0,
        "place": ["resid_post", 2, "prompt_last"] if cell.method == "probe" else None,
        "trained": trained,
        "ability": {"perplexity": 20.0, "choices": 0.5} if in_words else None,
        "diagnosis": None,
        "device": "cpu",
        "threads": 1,
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    config = teach_config(sizes=(1, 3, 10), seeds=3, control_seeds=1)
    material: dict[str, Material] = {"parity": planted_material(labeled_items(60), seeds=3)}
    folder = ComparisonFolder(tmp_path_factory.mktemp("comparison"))
    for cell in plan_cells(config):
        if cell.method == "text" and cell.labels == "shuffled":
            folder.write(cell, {"skipped": "too few"})
        else:
            folder.write(cell, made_up(cell, material))
    manifest = MaterialFolder(folder.path).run.manifest
    manifest.parent.mkdir()
    write_json(manifest, {"model": {"weights": "abc"}})
    return results_of(config, folder, material)


def row_of(results: dict[str, Any], **named: Any) -> dict[str, Any]:
    row: dict[str, Any]
    (row,) = [r for r in results["rows"] if all(r[k] == v for k, v in named.items())]
    return row


def test_rows_are_means_over_seeds_with_the_gain_of_words(results: dict[str, Any]) -> None:
    sft = row_of(results, method="sft", labels="true", size=1, test="held_out_groups")
    words = row_of(results, method="words", test="held_out_groups")
    assert sft["n_seeds"] == 3
    assert sft["auroc"] == pytest.approx(np.mean(sft["auroc_of_seeds"]), abs=1e-5)
    assert sft["gain"]["total"] == pytest.approx(sft["strict"] - words["strict"], abs=1e-5)
    assert sft["gain"]["total"] == pytest.approx(
        sft["gain"]["format"] + sft["gain"]["quality"], abs=1e-5
    )
    assert words["gain"] is None
    assert row_of(results, method="rl", labels="format", test="other_wording")["n_seeds"] == 1
    probe = row_of(results, method="probe", labels="true", size=1, test="other_templates")
    assert probe["places"] == ["resid_post/2/prompt_last"] * 3
    assert probe["gain"] is None
    assert not [
        r for r in results["rows"] if r["test"] == "other_wording" and r["method"] == "text"
    ]
    assert results["fingerprint"] == {"weights": "abc"}
    assert results["config"]["seeds"] == 3


def test_the_tables_say_what_was_left_out_and_not_measured(results: dict[str, Any]) -> None:
    page = table_markdown(results)
    assert "| on a GPU, bfloat16 | not measured |" in page
    assert "Not run: text alone, labels shuffled between groups: too few." in page
    assert "x3: 120 items" in page
    widths = [
        {line.count("|") for line in table.splitlines() if line.startswith("|")}
        for table in page.split("\n\n")
    ]
    assert all(len(width) <= 1 for width in widths)
    table = pd.read_csv(io.StringIO(table_rows(results)))
    assert len(table) == len(results["rows"])
    assert {"auroc", "auroc_ci_low", "gain_format", "seconds_an_answer"} <= set(table)


def test_figures_are_drawn_alike_every_time(results: dict[str, Any], tmp_path: Path) -> None:
    first = write_comparison_figures(results, tmp_path / "first")
    second = write_comparison_figures(results, tmp_path / "second")
    assert [path.name for path in first] == ["parity.svg", "parity_sizes.svg"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.with_suffix(".png").stat().st_size > 10_000

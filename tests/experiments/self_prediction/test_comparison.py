"""The whole comparison on a tiny random model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from experiments.self_prediction import comparison
from experiments.self_prediction.cells import Cell, plan_cells
from experiments.self_prediction.comparison import compare
from experiments.self_prediction.config import TeachConfig
from experiments.self_prediction.folder import ComparisonFolder
from experiments.self_prediction.material import loaded, open_material
from hooks import load_model
from tests.experiments.parity import save_tiny_model
from tests.experiments.self_prediction.planted import teach_config


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> TeachConfig:
    model = save_tiny_model(tmp_path_factory.mktemp("model"))
    return teach_config(
        model=str(model),
        seeds=1,
        steps=2,
        head_steps=10,
        batch=2,
        group=2,
        rank=2,
        evaluate_every=2,
        layers=(0, 1),
        positions=("prompt_last",),
    )


@pytest.fixture(scope="module")
def finished(
    config: TeachConfig, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("teaching") / "whole"
    return folder, compare(config, folder)


def without_clock(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if "seconds" not in name}
        for row in results["rows"]
    ]


def test_every_method_is_in_the_table(
    config: TeachConfig, finished: tuple[Path, dict[str, Any]]
) -> None:
    folder, results = finished
    kinds = {(row["method"], row["labels"]) for row in results["rows"]}
    assert kinds == {(cell.method, cell.labels) for cell in plan_cells(config)}
    for row in results["rows"]:
        assert 0 <= row["auroc"] <= 1
        assert row["n_items"] == results["rows"][0]["n_items"]
    assert json.loads((folder / "results.json").read_text()) == results
    for name in ("table.md", "results.csv", "figures/parity.png", "run/behavior.jsonl"):
        assert (folder / name).is_file()
    trained = next(row for row in results["rows"] if row["method"] == "sft")
    assert trained["perplexity"] > 0
    assert trained["steps"] == 2


def test_a_finished_one_is_read_back(
    config: TeachConfig,
    finished: tuple[Path, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "do_cell", lambda *_: pytest.fail("a cell was done again"))
    assert compare(config, finished[0]) == finished[1]


def test_one_that_was_killed_goes_on_to_the_same_numbers(
    config: TeachConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few = {"methods": ("words", "probe", "head", "sft"), "controls": ()}
    config = config.model_copy(update=few)
    whole = compare(config, tmp_path / "whole")
    do, done = comparison.do_cell, list[Cell]()

    def killed(config: Any, folder: Any, cell: Cell, *rest: Any) -> None:
        if len(done) == 2:
            raise KeyboardInterrupt
        do(config, folder, cell, *rest)
        done.append(cell)

    monkeypatch.setattr(comparison, "do_cell", killed)
    with pytest.raises(KeyboardInterrupt):
        compare(config, tmp_path / "out")
    monkeypatch.setattr(comparison, "do_cell", do)
    folder = ComparisonFolder(tmp_path / "out")
    assert [cell for cell in plan_cells(config) if folder.is_finished(cell)] == done
    assert without_clock(compare(config, tmp_path / "out")) == without_clock(whole)


def test_the_model_is_what_it_was(config: TeachConfig) -> None:
    fresh = load_model(config.model).module.state_dict()
    for name, weight in loaded(config.model, config.dtype).module.state_dict().items():
        assert torch.equal(weight, fresh[name])


def test_more_workers_go_on_with_what_fewer_began(
    config: TeachConfig, finished: tuple[Path, dict[str, Any]]
) -> None:
    """The cell is lost, its training is not."""
    folder, results = finished
    cell = Cell("parity", "head", "true", 1, 0)
    ComparisonFolder(folder).cell(cell).unlink()
    model = loaded(config.model, config.dtype)
    more = config.model_copy(update={"workers": 2})
    comparison.do_cell(more, ComparisonFolder(folder), cell, model, open_material(config, folder))
    assert without_clock(compare(config, folder)) == without_clock(results)


def test_another_comparison_is_refused(
    config: TeachConfig, finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    changed = config.model_copy(update={"steps": 3})
    with pytest.raises(ValueError, match=r"another comparison \(steps: 2 there, 3 asked for\)"):
        compare(changed, finished[0])
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other files"):
        compare(config, tmp_path)


@pytest.mark.parametrize(
    ("update", "message"),
    [({"layers": (0, 99)}, "99"), ({"tasks": ("silent",)}, "have outcome 1, at least 10")],
)
def test_what_cannot_work_is_said_before_training(
    config: TeachConfig, update: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        compare(config.model_copy(update=update), tmp_path / "out")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out" / "cells").exists()


def test_the_command_shows_its_examples() -> None:
    import experiments.cli.train_heads  # noqa: F401  (registers the command)
    from experiments.cli.app import app

    shown = CliRunner().invoke(app, ["train-heads", "--help"])
    assert shown.exit_code == 0
    assert "--preset cpu" in shown.output
    nothing = CliRunner().invoke(app, ["train-heads"])
    assert isinstance(nothing.exception, ValueError)
    assert "give a YAML file, or --preset cpu" in str(nothing.exception)

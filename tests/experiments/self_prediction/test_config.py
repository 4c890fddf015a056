"""What can be asked, and the cells that it comes to."""

from __future__ import annotations

import pytest

from experiments.self_prediction.cells import Cell, plan_cells
from experiments.self_prediction.config import METHODS, make_teach_config
from experiments.self_prediction.material import check_material
from tests.experiments.self_prediction.planted import teach_config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": ()}, "give at least one task"),
        ({"tasks": ("nothing",)}, "unknown task 'nothing'"),
        ({"methods": ("guess",)}, "methods.0: .*'guess'"),
        ({"methods": ("head",)}, "'head' sits where the probe reads; add 'probe'"),
        ({"controls": ("peer",)}, "'peer' wants the labels of another model"),
        ({"sizes": (3, 1)}, "sizes: must begin with 1 and rise"),
        ({"held_out": {"refusal": "x"}}, "held_out: 'refusal' is not among the tasks"),
        ({"layers": "all-of-them"}, "layers: .*neither a block nor a range"),
        ({"steps": 0}, "steps: .*greater than or equal to 1"),
        ({"epochs": 3}, "epochs: no such setting"),
        ({"site": "nowhere"}, "site"),
    ],
)
def test_faults_are_named_in_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        teach_config(**settings)
    assert "\n" not in str(raised.value)


def test_presets_are_whole_and_can_be_added_to() -> None:
    config = make_teach_config({"seeds": 1}, preset="cpu")
    assert (config.tasks, config.seeds) == (("refusal", "difficulty"), 1)
    with pytest.raises(ValueError, match="preset: unknown 'gpu'; allowed are cpu"):
        make_teach_config({}, preset="gpu")
    assert make_teach_config(dict(config.model_dump(mode="json"))) == config


def test_items_are_made_only_where_they_can_be() -> None:
    check_material(teach_config())
    with pytest.raises(ValueError, match=r"sizes: no items can be made of task 'parity'"):
        check_material(teach_config(sizes=(1, 3)))
    with pytest.raises(ValueError, match=r"wordings: task 'parity' has 2, .* give at most 1"):
        check_material(teach_config(wordings=2))


def test_every_method_meets_every_size_seed_and_control() -> None:
    cells = plan_cells(teach_config(sizes=(1, 3), seeds=3, control_seeds=1))
    assert len(set(cells)) == len(cells)
    assert [cell for cell in cells if cell.method == "words"] == [Cell("parity", "words", "none")]
    trained = [method for method in METHODS if method != "words"]
    for method in trained:
        true = {(c.size, c.seed) for c in cells if c.method == method and c.labels == "true"}
        assert true == {(size, seed) for size in (1, 3) for seed in range(3)}
    shuffled = [cell for cell in cells if cell.labels == "shuffled"]
    assert {c.seed for c in shuffled if c.method == "sft"} == {0}
    assert {c.seed for c in shuffled if c.method == "head"} == {0, 1, 2}
    assert {c.method for c in cells if c.labels == "format"} == {"rl"}
    assert not [cell for cell in cells if cell.labels == "peer"]
    assert [c for c in plan_cells(teach_config(peer="other")) if c.labels == "peer"]


def test_a_probe_comes_before_what_sits_where_it_reads() -> None:
    cells = plan_cells(teach_config())
    for cell in cells:
        if cell.method in ("head", "joint"):
            assert cells.index(cell.probe) < cells.index(cell)

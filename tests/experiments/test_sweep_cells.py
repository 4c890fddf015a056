"""What a sweep's file asks for: the grid, the names of its jobs, and what is refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.config import read_config
from experiments.sweeps.cells import SETTINGS, Cell, make_cells
from experiments.sweeps.jobs import Job, waves
from experiments.sweeps.runner import share

GRID = {
    "model": ["smollm2-135m", "gemma3-270m"],
    "task": ["refusal", "difficulty"],
    "seed": [0, 1],
}


def names(cells: list[Cell]) -> list[str]:
    return [Job("cell", cell).name for cell in cells]


def test_a_list_at_any_setting_is_a_grid() -> None:
    cells = make_cells({**GRID, "context": ["task", "self_prediction"], "n": [60, 120], "folds": 4})
    assert len(cells) == 2 * 2 * 2 * 2 * 2
    assert len(set(names(cells))) == len(cells)
    found = {
        (c.config.model, c.task.name, c.analysis.context, c.config.seed, c.config.n) for c in cells
    }
    assert len(found) == len(cells)
    assert {c.config.folds for c in cells} == {4}


def test_where_a_value_is_a_list_a_list_of_lists_is_the_grid() -> None:
    one = {"model": "smollm2-135m", "task": "refusal"}
    (cell,) = make_cells({**one, "layers": [0, 4], "positions": ["prompt_last", "template_1"]})
    assert cell.config.layers == (0, 4)
    assert cell.config.positions == ("prompt_last", "template_1")
    cells = make_cells({**one, "layers": [[0, 4], [5], "all"]})
    assert [c.config.layers for c in cells] == [(0, 4), (5,), "all"]


def test_equal_cells_are_one() -> None:
    cells = make_cells({**GRID, "seed": [0, 0, 1], "layers": ["0-2", [0, 1, 2]]})
    assert len(cells) == 8 * 1


@given(st.permutations(list(GRID)))
def test_names_depend_on_no_order_of_keys(order: list[str]) -> None:
    cells = make_cells({key: GRID[key] for key in order})
    assert names(cells) == names(make_cells(GRID))


def test_names_are_those_of_the_settings_with_defaults_filled_in() -> None:
    spelled = {
        "permutations": 199,
        "folds": 5,
        "context": "task",
        "probe": "ridge",
        "layers": "all",
    }
    assert names(make_cells({**GRID, **spelled})) == names(make_cells(GRID))
    assert not set(names(make_cells({**GRID, "folds": 6}))) & set(names(make_cells(GRID)))


def test_names_stay_what_they_are() -> None:
    """A name that changes, with a version of Python or of this package, makes finished work worthless."""
    (cell,) = make_cells({"model": "smollm2-135m", "task": "refusal"})
    assert [Job(kind, cell).name for kind in ("source", "text", "null", "cell")] == PINNED


PINNED = ["66e1204c93aebf17", "93d8239773c7ee42", "dd9e93af69fa25d5", "54a0c78fbd8372bd"]


def test_a_seed_added_later_leaves_the_other_names() -> None:
    before = names(make_cells(GRID))
    after = names(make_cells({**GRID, "seed": [0, 1, 2]}))
    assert set(before) < set(after)


def test_items_are_known_by_what_they_hold(tmp_path: Path) -> None:
    one = {"model": "smollm2-135m", "task": "refusal"}
    a, b, c = (tmp_path / f"{name}.jsonl" for name in "abc")
    a.write_text('{"id": "1", "text": "hello"}\n')
    b.write_text(a.read_text())
    c.write_text(a.read_text() * 2)
    first, moved, other = (names(make_cells({**one, "items": str(path)})) for path in (a, b, c))
    assert first == moved
    assert first != other


def test_nothing_is_computed_twice() -> None:
    cells = make_cells(
        {
            **GRID,
            "context": ["task", "self_prediction"],
            "probe": ["ridge", "lda"],
            "layers": [[0], [1]],
        }
    )
    sources, references, rows = waves(cells)
    assert len(rows) == 2**6
    assert len(sources) == 2 * 2 * 2, (
        "a model, a task and a choice of layers: greedy answers know no seed"
    )
    kinds = [job.kind for job in references]
    assert kinds.count("text") == 2 * 2 * 2, (
        "what a text says depends on no layer, context or probe"
    )
    assert kinds.count("null") == 2**5, "one for all probes"
    for wave in (sources, references, rows):
        assert len({job.name for job in wave}) == len(wave)


def test_sampled_answers_depend_on_the_seed() -> None:
    assert len(waves(make_cells({**GRID, "samples": 4}))[0]) == 8


def test_sources_of_a_model_stay_together_while_all_workers_have_work() -> None:
    sources, references, _ = waves(make_cells(GRID))
    for slots, sizes in ((1, [2, 2]), (2, [2, 2]), (3, [2, 2]), (4, [1, 1, 1, 1])):
        parts = share(sources, slots)
        assert [len(part) for part in parts] == sizes
        assert all(len({job.config.model for job in part}) == 1 for part in parts)
    assert [len(part) for part in share(references, 2)] == [1] * len(references)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "refusal"}, "model: a sweep needs at least one"),
        ({"model": "smollm2-135m"}, "task: a sweep needs at least one"),
        (
            {**GRID, "models": "x"},
            "models: no such setting of a sweep; allowed are model, task, context",
        ),
        ({**GRID, "peer": "x"}, "peer: no such setting of a sweep"),
        (
            {**GRID, "task": ["refusal", "nothing"]},
            "task: unknown 'nothing'; `selfprobe tasks` lists",
        ),
        ({**GRID, "model": ["x", {"name": 1}]}, "model: must be a name"),
        ({**GRID, "seed": []}, "seed: the list is empty"),
        ({**GRID, "folds": [5, 2]}, r"folds: .* greater than or equal to 3 \(given: 2\)"),
        ({**GRID, "permutations": 50}, r"permutations: .* 199 \(given: 50\)"),
        (
            {**GRID, "context": "words"},
            r"context: .*'task' or 'self_prediction' \(given: 'words'\)",
        ),
        ({**GRID, "probe": "svm"}, r"probe: .*'ridge'.* \(given: 'svm'\)"),
        ({**GRID, "layers": [[0, "x"]]}, "layers"),
        ({**GRID, "layers": [[]]}, "layers: must be all, or blocks"),
        ({**GRID, "layers": 5}, r"layers: must be all, or blocks .* \(given: 5\)"),
        ({**GRID, "layers": [True]}, "layers: must be all, or blocks"),
        ({**GRID, "items": 5}, r"items: .* \(given: 5\)"),
        (
            {**GRID, "seed": [*range(9999)], "folds": [3, 4]},
            "seed: 9999 values make a grid of [0-9,]+ cells; at most 20,000",
        ),
    ],
)
def test_bad_settings_are_named_in_one_line(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        make_cells(settings)
    assert "\n" not in str(refused.value)


def test_settings_are_json_and_complete() -> None:
    (cell,) = make_cells({"model": "smollm2-135m", "task": "refusal"})
    held = json.loads(json.dumps(cell.settings))
    assert set(held) == {*SETTINGS, "items_sha256"} - {"items"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\ntask: refusal\nseed: 2\n", r"'seed' stands there twice; give it once"),
        ("model: " + "[" * 3000 + "]" * 3000, "is not YAML"),
        ("model: [smollm2-135m\n", "is not YAML"),
        ("- seed\n", "must hold a mapping"),
    ],
)
def test_a_file_that_does_not_say_one_thing_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "sweep.yaml").write_text(text)
    with pytest.raises(ValueError, match=message) as refused:
        read_config(tmp_path / "sweep.yaml")
    assert "\n" not in str(refused.value)

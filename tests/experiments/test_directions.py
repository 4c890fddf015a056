"""Directions of planted probes: what moves, what does not, and what the figures make of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from experiments.config import make_config
from experiments.directions import N_STEPS, ProbeDirections, directions_of_run, tasks_together
from experiments.progress import Silent
from experiments.report import cosine_figure, transfer_figure, write_direction_figures
from experiments.report.matrices import degeneracy_lines, figure_texts

WIDTH, LAYERS = 24, (3, 4)
CONFIG = make_config({"tasks": "refusal"})


class Planted:
    """A task whose outcome lies along one axis of its activations, at layer 4 alone."""

    def __init__(self, name, axis, seed, *, strata=("a", "b"), n_groups=60):
        rng = np.random.default_rng(seed)
        self.task = SimpleNamespace(name=name)
        self.groups = np.repeat([f"g{i}" for i in range(n_groups)], 2)
        self.outcome = rng.integers(0, 2, len(self.groups))
        self.ids = [f"{name}-{i}" for i in range(len(self.groups))]
        self.items = [
            SimpleNamespace(stratum=strata[i // 2 % len(strata)]) for i in range(len(self.ids))
        ]
        self.elicitations = ("one", "other")
        self.contexts = {}
        self.cells = tuple(("resid_post", layer, "prompt_last") for layer in LAYERS)
        signal = np.outer(self.outcome - 0.5, 2.5 * np.eye(WIDTH)[axis])
        self.task_states = {layer: rng.normal(size=(len(self.ids), WIDTH)) for layer in LAYERS}
        self.task_states[4] += signal
        # At the slot the axis is another one, and two wordings differ by what their mean cancels.
        self.slot = rng.normal(size=(len(self.ids), WIDTH)) + np.roll(signal, 7, axis=1)
        self.bias = 50 * rng.normal(size=(len(self.ids), WIDTH))

    def task_features(self, cell):
        return self.task_states[cell[1]]

    def report_features(self, cell, elicitation):
        if cell[2] == "quote_last":
            return self.task_states[cell[1]] + 3.0
        return self.slot + (self.bias if elicitation == "one" else -self.bias)

    def directions(self, alpha=1.0):
        chosen = {"site": "resid_post", "layer": 4, "position": "prompt_last", "alpha": alpha}
        row = chosen | {"selected": [[chosen] * CONFIG.folds] * CONFIG.regroupings}
        return ProbeDirections(self, row, CONFIG)


@pytest.fixture(scope="module")
def found():
    steps = []
    return Planted("one", 0, seed=0).directions().to_json(steps.append) | {"steps": steps}


def aurocs(matrix):
    return np.array([[entry["auroc"] for entry in row] for row in matrix["entries"]])


def test_a_direction_moves_where_it_was_planted(found):
    assert len(found["steps"]) == N_STEPS
    matrix = found["contexts"]
    assert matrix["names"] == ["task", "self_prediction", "quote_last"]
    values = aurocs(matrix)
    assert (np.diag(values) > 0.88).all()
    assert values[0, 2] > 0.88
    assert values[0, 1] == pytest.approx(0.5, abs=0.22)
    moved = matrix["entries"][0][2]
    assert moved["balanced_accuracy"] < 0.75
    assert moved["shifted_accuracy"] > 0.8
    assert (aurocs(found["strata"]) > 0.8).all()


def test_cosines_stand_out_at_the_planted_layer_only(found):
    quote = next(p for p in found["cosines"]["contexts"] if p["pair"] == ["task", "quote_last"])
    slot = next(p for p in found["cosines"]["contexts"] if p["pair"] == ["task", "self_prediction"])
    assert quote["values"] == pytest.approx([1, 1])
    assert abs(slot["values"][1]) < 0.5
    across = np.array(found["cosines"]["values"])
    assert across[0, 1] < found["cosines"]["null"][0][1] + 0.2
    assert np.array_equal(across, across.T)


def test_a_layer_of_constant_states_has_no_direction(found, tmp_path):
    task = Planted("one", 0, seed=0)
    task.cells = (("resid_post", 0, "prompt_last"), *task.cells)
    task.task_states[0] = np.ones((len(task.ids), WIDTH))
    cosines = task.directions().to_json(lambda n: None)["cosines"]
    assert cosines["layers"] == list(LAYERS)
    assert cosines["values"] == found["cosines"]["values"]
    # At the end of the quote the states of layer 0 are constant as well, at the slot they are not.
    assert [pair["layers"] for pair in cosines["contexts"]] == [list(LAYERS)] * 3
    task.cells = task.cells[:1]
    nowhere = task.directions().to_json(lambda n: None)
    assert nowhere["cosines"]["layers"] == []
    paths = write_direction_figures({"tasks": {"one": nowhere}, "across_tasks": None}, tmp_path)
    assert "cosines" not in paths["one"]
    with pytest.raises(ValueError, match="fewer than two layers"):
        cosine_figure(nowhere["cosines"])


def test_layers_that_are_not_neighbors_lie_where_their_ticks_are(found):
    spread = found["cosines"] | {"layers": [0, 8]}
    mesh = cosine_figure(spread).axes[0].collections[0]
    assert np.allclose(mesh.get_coordinates()[0, :, 0], [-4, 4, 12])


def test_strata_that_cannot_be_scored_are_named():
    lopsided = Planted("one", 0, seed=0, strata=("a", "b", "b"))
    rows = [i for i, item in enumerate(lopsided.items) if item.stratum == "a"]
    lopsided.outcome[rows] = 1
    matrix = lopsided.directions().to_json(lambda n: None)["strata"]
    assert matrix["names"] == []
    assert matrix["skipped"] == {"a": "no negative items among 40"}
    with pytest.raises(ValueError, match="fewer than two domains could be scored"):
        transfer_figure(matrix)


def test_tasks_that_share_a_direction_move_and_others_do_not():
    tasks = {
        name: Planted(name, axis, seed)
        for seed, (name, axis) in enumerate([("one", 0), ("like", 0), ("other", 5)])
    }
    run = tasks_together({name: task.directions() for name, task in tasks.items()})
    values = aurocs(run["transfer"])
    assert values[0, 1] > 0.88
    assert values[0, 2] == pytest.approx(0.5, abs=0.22)
    alike, _, apart = run["cosines"]
    assert alike["values"][1] > alike["null"][1]
    assert alike["values"][1] > 0.6
    assert alike["values"][0] < 0.5
    assert alike["pair"] == ["one", "like"]
    assert abs(apart["values"][1]) < 0.5
    assert tasks_together({"one": tasks["one"].directions()}) is None


def test_a_skipped_task_has_no_directions(found):
    one, silent = Planted("one", 0, seed=0), SimpleNamespace(task=SimpleNamespace(name="silent"))
    results = {
        "one": {"skipped": None, "probe": one.directions().probe},
        "silent": {"skipped": "no positive items"},
    }
    run = directions_of_run([one, silent], results, CONFIG, Silent())
    assert run["tasks"] == {"one": {name: found[name] for name in run["tasks"]["one"]}}
    assert run["across_tasks"] is None


def test_figures_show_every_number(found, tmp_path):
    directions = {"tasks": {"one": found}, "across_tasks": None}
    paths = write_direction_figures(directions, tmp_path)["one"]
    assert set(paths) == {"cosines", "transfer_contexts", "transfer_strata"}
    again = write_direction_figures(directions, tmp_path / "again")["one"]
    for name, path in paths.items():
        assert path.with_suffix(".png").stat().st_size > 5000
        assert path.read_bytes() == again[name].read_bytes()
    written = {text.get_text() for text in transfer_figure(found["contexts"]).axes[0].texts}
    entry = found["contexts"]["entries"][0][1]
    assert f"{entry['auroc']:.2f}" in written
    assert f"{entry['balanced_accuracy']:.2f} \u2192 {entry['shifted_accuracy']:.2f}" in written
    assert f"[{entry['ci'][0]:.2f}, {entry['ci'][1]:.2f}]" in written
    told = figure_texts(directions)["one"]
    assert f"task prompt to answer slot {entry['auroc']:.2f}" in told["transfer_contexts"]
    assert len(cosine_figure(found["cosines"]).axes) == 4


def test_many_domains_keep_their_labels_apart(tmp_path):
    names = [f"a rather long name {i}" for i in range(12)]
    entry = {"auroc": 0.7, "ci": [0.6, 0.8], "balanced_accuracy": 0.6, "shifted_accuracy": 0.65}
    matrix = {"names": names, "entries": [[entry | {"tested_on": n} for n in names] for _ in names]}
    matrix["entries"][2][3]["ci"] = [0.45, 0.9]
    figure = transfer_figure(matrix)
    figure.canvas.draw()
    weights = [text.get_weight() for text in figure.axes[0].texts]
    assert weights.count("normal") == 1
    assert weights[2 * 12 + 3] == "normal"
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert {text.get_text() for text in figure.axes[0].texts} == {"0.70"}


def test_the_degeneracy_line_says_how_far_it_went(found):
    line = degeneracy_lines(found)[0]
    assert line.score.startswith(f"{found['degeneracy']['after'][1]['auroc']:.2f} [")
    assert "what a fit on few items missed" in line.note
    far = found["degeneracy"] | {"n_removed": None}
    assert "above chance after" in degeneracy_lines({"degeneracy": far})[0].note
    assert degeneracy_lines(None) == []

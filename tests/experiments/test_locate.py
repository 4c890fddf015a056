"""Where the outcome gets lost, on planted states whose layers are known, and on a whole run of a tiny model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from activations_cache import ActivationsCache
from experiments.behavior import Behavior
from experiments.breakdown import Breakdown
from experiments.config import make_config
from experiments.elicitation import Questions, SelfPrediction
from experiments.inequalities import Evidence
from experiments.layer_scores import layer_scores
from experiments.locate import Location, locate_task, n_steps
from experiments.task_data import TaskData
from experiments.tasks import Item
from hooks import Activations, CaptureSpec, Model, spellings
from hooks.readout import option_tokens
from probes import regrouped_folds, same_fold_auroc
from tests.conftest import make_tiny_model
from tests.experiments.parity import ParityTask

TASK = ParityTask()
QUESTIONS = Questions.of(TASK, 1, "short")
N_GROUPS, SIZE, N_LAYERS = 80, 2, 6
TRANSFER: dict[str, Any] = {"names": [], "entries": [], "skipped": {}}


class DeepModel:
    """Planted residual states: the outcome enters the task prompt, the slot and the words at layers of their own."""

    def __init__(
        self, folder: Path, model: Model, *, task: int, slot: int, words: int, along: int = 0
    ) -> None:
        """`along`: from this layer on, the slot has it along the axis of the task prompt; below, along another."""
        rng = np.random.default_rng(0)
        n, d = N_GROUPS * SIZE, model.d_model
        self.y = rng.integers(2, size=n)
        self.items = [
            Item(
                f"i{i}", "parity", f"g{i // SIZE}", "all", ({"role": "user", "content": f"x {i}"},)
            )
            for i in range(n)
        ]
        signed = 2.0 * self.y - 1
        readout = _towards_the_letter_a(model)
        axis, other = np.linalg.qr(np.column_stack([readout, rng.normal(size=(d, 2))]))[0].T[1:]

        def states(
            known_from: int, said_from: int = N_LAYERS, sign: int = 1, along_from: int = 0
        ) -> torch.Tensor:
            layers = np.arange(N_LAYERS)[:, None]
            known = np.where(layers >= along_from, axis, other)
            planted = (
                2.0 * (layers >= known_from) * known + 2.5 * sign * (layers >= said_from) * readout
            )
            noise = rng.normal(size=(n, N_LAYERS, d)) + signed[:, None, None] * planted
            return torch.tensor(noise, dtype=torch.float32)[:, :, None]

        ids = [item.id for item in self.items]
        self.task_cache = _cache(folder / "task", ("prompt_last",), ids, states(task))
        slots = {
            f"{id}/{e.name}": one
            for e in QUESTIONS.options
            for id, one in zip(
                ids, states(slot, words, 1 if e.yes == "A" else -1, along), strict=True
            )
        }
        self.report_cache = _cache(
            folder / "report", ("prompt_last",), list(slots), torch.stack(list(slots.values()))
        )

    def data(self) -> TaskData:
        behavior = [
            Behavior(
                item.id, "parity", ("x",), (1,), ("x",), (int(y),), {}, {}, float(y), int(y), ""
            )
            for item, y in zip(self.items, self.y, strict=True)
        ]
        reports = [
            SelfPrediction(
                item.id, "parity", e.name, "options", "self", e.paraphrase, e.order, 0.0, 0.5, None, None, "",
            )
            for item in self.items
            for e in QUESTIONS.options
        ]  # fmt: skip
        return TaskData.join(
            TASK, self.items, behavior, reports, QUESTIONS, self.task_cache, self.report_cache,
            CaptureSpec(positions=("prompt_last",)),
        )  # fmt: skip


def _towards_the_letter_a(model: Model) -> np.ndarray:
    """A direction of final states that raises the logits of "A" over those of "B"."""
    options = {word: spellings(word) for word in ("A", "B")}
    tokens = option_tokens(model.tokenizer, options)
    weight = model.module.get_output_embeddings().weight.detach().double()
    gap = weight[list(tokens["A"])].mean(dim=0) - weight[list(tokens["B"])].mean(dim=0)
    return (gap / gap.norm()).numpy()


def _cache(
    folder: Path, positions: tuple[str, ...], ids: list[str], states: torch.Tensor
) -> ActivationsCache:
    spec = CaptureSpec(layers=tuple(range(N_LAYERS)), positions=positions)
    made = ActivationsCache.create(
        folder, fingerprint={"n_layers": N_LAYERS}, spec=spec, dtype="float32"
    )
    made.append(Activations(tuple(ids), {"resid_post": states}, tuple(range(N_LAYERS)), positions))
    made.close()
    return made


@pytest.fixture(scope="module")
def model() -> Model:
    return make_tiny_model("llama")


CONFIG = make_config({"tasks": "refusal", "words": "short", "paraphrases": 1})


def breakdown(stage: str, best: str = "answer-slot probe") -> dict[str, Any]:
    row = Evidence(f"words are as good as the {best}", "", -0.3, -0.4, -0.2, 0.08, "falls short")
    return Breakdown(stage, "As planted.", (row,), None).to_json()


def result(stage: str, quote: float = 0.9, best: str = "answer-slot probe") -> dict[str, Any]:
    chosen = {"site": "resid_post", "position": "prompt_last", "alpha": 1.0}
    return {
        "probe": chosen | {"selected": [[chosen] * CONFIG.folds] * CONFIG.regroupings},
        "report_probe": {"alpha": 1.0},
        "breakdown": breakdown(stage, best),
        "curves": {"self_prediction": {"quote_last": [0.5, None, quote]}},
    }


def located(
    folder: Path,
    model: Model,
    stage: str,
    *,
    quote: float = 0.9,
    best: str = "answer-slot probe",
    config: Any = CONFIG,
    **layers: int,
) -> Location:
    data = DeepModel(folder, model, **layers).data()
    steps: list[int] = []
    found = locate_task(data, result(stage, quote, best), TRANSFER, config, model, steps.append)
    assert sum(steps) == n_steps(data)
    return found


def test_words_that_come_later_are_found_later(tmp_path: Path, model: Model) -> None:
    found = located(tmp_path, model, "faithful", task=1, slot=2, words=4)
    assert found.race is not None
    half = found.race["half_rise"]
    assert (half["probe"], half["words"]) == (2, 4)
    assert half["difference"] == {"estimate": 2.0, "ci": [2.0, 2.0]}
    assert found.race["sentence"] == "The words rise after the probe (+2 layers [2, 2])."
    assert max(found.race["words"][:4]) < 0.65
    assert min(found.race["words"][4:]) > 0.9
    assert found.loss["layer"] is None
    task = [row["task"] for row in found.by_layer]
    assert task[0] < 0.65
    assert min(task[1:]) > 0.9
    # The task's direction is that of the slot: moved there it reads as well as one that was trained there.
    assert found.by_layer[3]["transferred"] > 0.9
    assert all(
        low <= row[name] <= high
        for row in found.by_layer
        for name, (low, high) in row["ci"].items()
    )


def test_what_the_words_do_not_read_out_is_lost_where_the_probe_has_it(
    tmp_path: Path, model: Model
) -> None:
    found = located(tmp_path, model, "not_read_out", task=1, slot=3, words=N_LAYERS)
    assert (found.loss["layer"], found.loss["layer_ci"]) == (3, [3, 3])
    assert found.loss["position"] == "prompt_last"
    assert "fall behind the probe from layer 3 [3, 3] on" in found.loss["sentence"]
    assert found.race is not None
    assert found.race["half_rise"]["words"] is None
    assert found.race["half_rise"]["difference"] == {"estimate": None, "ci": [None, None]}
    assert "the words never rise above what the first layer shows" in found.race["sentence"]


@pytest.mark.parametrize(
    ("best", "not_read_out", "not_transported"),
    [("answer-slot probe", 2, None), ("moved task probe", 4, 1)],
)
def test_the_loss_is_measured_by_the_probe_that_the_diagnosis_took(
    tmp_path: Path, model: Model, best: str, not_read_out: int, not_transported: int | None
) -> None:
    """A probe of its own reads the slot from layer 2 on, and that of the task prompt from layer 4 on."""
    layers = {"task": 1, "slot": 2, "along": 4, "words": N_LAYERS}
    found = located(tmp_path / "a", model, "not_read_out", best=best, **layers)
    assert found.loss["layer"] == not_read_out
    layers |= {"slot": 1, "along": N_LAYERS}
    found = located(tmp_path / "b", model, "not_transported", best=best, **layers)
    assert found.loss["layer"] == not_transported


@pytest.mark.parametrize(("quote", "position"), [(0.95, "prompt_last"), (0.6, "quote_last")])
def test_what_does_not_reach_the_slot_is_lost_where_the_task_has_it(
    tmp_path: Path, model: Model, quote: float, position: str
) -> None:
    """Not at the slot; at the end of the quote, or not even there."""
    found = located(
        tmp_path, model, "not_transported", quote=quote, task=2, slot=N_LAYERS, words=N_LAYERS
    )
    assert (found.loss["layer"], found.loss["position"]) == (2, position)


def test_a_location_survives_its_file(tmp_path: Path, model: Model) -> None:
    found = located(tmp_path, model, "unparsed", task=1, slot=2, words=3)
    assert found.loss["position"] == "answer"
    assert Location.from_json(found.to_json()) == found
    frame = found.to_frame()
    assert len(frame) == 4 * N_LAYERS
    assert set(frame["predictor"]) == {"task", "slot", "transferred", "words"}
    assert frame["auroc"].between(frame["ci_low"], frame["ci_high"]).all()


def test_what_is_missing_says_how_it_is_added(tmp_path: Path, model: Model) -> None:
    found = located(tmp_path, model, "faithful", task=1, slot=2, words=3)
    assert found.skipped["other_framing"].endswith("--other-contexts` adds it")
    assert found.skipped["input_question"].endswith("--other-contexts` adds it")
    assert found.skipped["peer"].endswith("--peer MODEL` adds it")
    elsewhere = CONFIG.model_copy(update={"site": "attn_out"})
    blind = located(
        tmp_path / "blind", model, "not_read_out", config=elsewhere, task=1, slot=2, words=3
    )
    assert blind.race is None
    assert "attn_out was captured" in blind.skipped["words"]
    assert "words" not in blind.by_layer[0]
    assert blind.loss["layer"] is None


def test_every_layer_is_the_input_of_a_diagnosis(tmp_path: Path, model: Model) -> None:
    """The arrays are what `diagnose` takes: words that the slot's probe has and the words do not."""
    from experiments.breakdown import diagnose

    data = DeepModel(tmp_path, model, task=1, slot=2, words=5).data()
    scores = layer_scores(data, result("faithful"), CONFIG, model, lambda steps: None)
    assert scores.words is not None
    text = np.random.default_rng(1).normal(size=len(data.outcome))
    stages = [
        diagnose(
            data.outcome,
            data.groups,
            scores.task[layer],
            text,
            scores.slot[layer],
            scores.transferred[layer],
            scores.words[layer],
            data.outcome.astype(float),
            folds=scores.folds,
        ).stage
        for layer in (0, 1, 3, 5)
    ]
    assert stages[1:] == ["not_transported", "not_read_out", "faithful"]
    assert stages[0] in ("not_beyond_text", "undetermined")


def test_scores_are_out_of_fold_and_alike_whatever_the_threads(
    tmp_path: Path, model: Model
) -> None:
    """A label that nothing foretells: no layer of any probe has an AUROC far from a half."""
    world = DeepModel(tmp_path, model, task=N_LAYERS, slot=N_LAYERS, words=N_LAYERS)
    scores = layer_scores(world.data(), result("faithful"), CONFIG, model, lambda steps: None)
    again = layer_scores(world.data(), result("faithful"), CONFIG, model, lambda steps: None)
    folds = regrouped_folds(
        world.y, world.data().groups, CONFIG.folds, CONFIG.regroupings, CONFIG.seed
    )
    assert np.array_equal(scores.folds, folds)
    for name, rows in scores.rows().items():
        assert np.array_equal(rows, again.rows()[name])
        aurocs = [
            np.mean(
                [
                    same_fold_auroc(world.y, row, fold)
                    for row, fold in zip(layer, folds, strict=True)
                ]
            )
            for layer in rows
        ]
        assert 0.4 < np.mean(aurocs) < 0.6

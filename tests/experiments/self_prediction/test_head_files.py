from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from experiments.self_prediction.head_files import about_head
from experiments.self_prediction.heads import SelfPredictionHead, Shape, Target
from experiments.self_prediction.place import Place
from probes import RidgeProbe
from tests.experiments.self_prediction.head_data import TARGETS, drawn_head

PLACE = Place("resid_post", 1, "quote_last")
SHAPES = (Shape(), Shape("mlp", hidden=4, seed=2), Shape("mlp", hidden=4, shared=False))


@pytest.fixture
def model(tiny_model_of):
    return tiny_model_of("llama")


@pytest.fixture
def saved(model, tmp_path):
    drawn_head(model, PLACE, SHAPES[1]).save(tmp_path / "h")
    return tmp_path / "h"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("place", [PLACE, Place("final_norm", None, "mean_instruction")])
def test_a_loaded_head_is_the_saved_one(shape, place, model, tmp_path) -> None:
    head = drawn_head(model, place, shape)
    head.save(tmp_path / "new" / "a.b", about={"task": "refusal"})
    states = torch.randn(7, 32)
    for loaded in (
        SelfPredictionHead.load(tmp_path / "new" / "a.b", model),
        SelfPredictionHead.load(str(tmp_path / "new/a.b")),
    ):
        assert (loaded.targets, loaded.place, loaded.shape) == (TARGETS, place, shape)
        assert loaded.fingerprint == model.fingerprint
        for target, values in head.predict(states).items():
            np.testing.assert_array_equal(loaded.predict(states)[target], values)
    assert about_head(tmp_path / "new" / "a.b") == {"task": "refusal"}
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["a.b.json", "a.b.safetensors"]


def test_a_head_of_another_model_is_refused(saved, model, tiny_model_of) -> None:
    for other in (tiny_model_of("gpt2"), tiny_model_of("llama", 1)):
        with pytest.raises(ValueError, match=r"h\.json: belongs to model 'tiny-llama'") as caught:
            SelfPredictionHead.load(saved, other)
        assert "\n" not in str(caught.value)
    renamed = replace(model, name="elsewhere")
    assert SelfPredictionHead.load(saved, renamed).fingerprint["name"] == "tiny-llama"


def test_training_the_trunk_makes_another_model_until_the_head_is_bound_anew(
    saved, tiny_model_of, module_of
) -> None:
    model = tiny_model_of("llama")
    head = SelfPredictionHead.load(saved, model)
    weight = model.architecture.blocks[0].module.mlp.up_proj.weight
    before = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.add_(1.0)
        with pytest.raises(ValueError, match=r"\(other weights\)"), head.attach(model):
            pass
        head.bind(model)
        with head.attach(model):
            pass
    finally:
        with torch.no_grad():
            weight.copy_(before)


def with_json(**changed):
    def damage(stem):
        path = stem.with_suffix(".json")
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))

    return damage


def with_tensors(**changed):
    def damage(stem):
        path = stem.with_suffix(".safetensors")
        kept = {k: v for k, v in {**load_file(path), **changed}.items() if v is not None}
        save_file(kept, path)

    return damage


def cut(suffix):
    def damage(stem):
        path = stem.with_suffix(suffix)
        path.write_bytes(path.read_bytes()[:-20])

    return damage


FLOAT = np.float32


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda stem: stem.with_suffix(".json").unlink(), "no file .*h.json; give the stem"),
        (lambda stem: stem.with_suffix(".safetensors").unlink(), "no file .*h.safetensors"),
        (cut(".json"), "h.json is damaged .not JSON"),
        (cut(".safetensors"), "h.safetensors is damaged .not safetensors"),
        (with_json(format=99), "has format 99"),
        (with_json(d_model="32"), "no d_model of type int"),
        (with_json(d_model=16), r"mean has shape \(32,\), h.json says \(16,\)"),
        (with_json(d_model=2**60), "h.* is damaged"),
        (with_json(d_model=-1), "make no head"),
        (with_json(targets=[]), "make no head"),
        (with_json(targets=[{"name": "a", "kind": "word"}]), "make no head"),
        (with_json(targets=["a"]), "make no head"),
        (with_json(place={"site": "resid_post", "layer": 1}), "make no head"),
        (with_json(place={"site": "x", "layer": 1, "position": "prompt_last"}), "make no head"),
        (with_json(shape={"kind": "mlp", "hidden": "4"}), "make no head"),
        (with_json(shape={"kind": "mlp", "hidden": 10**15}), "h.* is damaged"),
        (with_tensors(mean=None), "no mean"),
        (with_tensors(mean=np.zeros(31, FLOAT)), r"mean has shape \(31,\)"),
        (with_tensors(scale=np.ones(32)), "scale is float64, not float32"),
        (with_tensors(scale=np.full(32, np.nan, FLOAT)), "scale holds nan or inf"),
        (with_tensors(scale=np.ones(32, FLOAT)), "not the weights that h.json was saved with"),
    ],
)
def test_damage_is_named_in_one_line(saved, model, damage, message) -> None:
    damage(saved)
    for trusted in (None, model):
        with pytest.raises(ValueError, match=message) as caught:
            SelfPredictionHead.load(saved, trusted)
        assert "\n" not in str(caught.value)


def test_a_layer_out_of_range_is_refused(saved, model) -> None:
    with_json(place={"site": "resid_post", "layer": 3, "position": "prompt_last"})(saved)
    with pytest.raises(ValueError, match="layers: 3 does not exist; this model has layers 0 to 2"):
        SelfPredictionHead.load(saved, model)


def test_another_thing_that_was_saved_is_no_head(tmp_path) -> None:
    RidgeProbe().fit(np.eye(4), [0, 1, 0, 1]).save(tmp_path / "p")
    with pytest.raises(ValueError, match=r"head: .*p.json is damaged .no targets"):
        SelfPredictionHead.load(tmp_path / "p")


def test_what_cannot_be_saved_leaves_the_saved_head_alone(saved, model) -> None:
    before = saved.with_suffix(".json").read_bytes()
    unbound = SelfPredictionHead([Target("a")], PLACE, 32)
    broken = drawn_head(model, PLACE)
    broken.mean[3] = torch.nan
    for save, message in (
        (lambda: unbound.save(saved), "belongs to no model; call bind"),
        (lambda: broken.save(saved), "mean holds nan or inf; train it again"),
        (lambda: drawn_head(model, PLACE).save(saved, {"a": object()}), "give what JSON can hold"),
        (lambda: drawn_head(model, PLACE).save(""), "give the stem of a head"),
    ):
        with pytest.raises(ValueError, match=message):
            save()
    assert saved.with_suffix(".json").read_bytes() == before

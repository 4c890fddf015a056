from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from probes import (
    DiffMeansProbe,
    LDAProbe,
    LogisticProbe,
    MultinomialProbe,
    RidgeProbe,
    about_probe,
    load_probe,
)

PROBES = [
    DiffMeansProbe(),
    LDAProbe(shrinkage=0.3),
    LDAProbe(),
    RidgeProbe(alpha=np.float64(0.1)),
    LogisticProbe(C=0.5, max_iter=50),
]
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 7)).astype(np.float32) * 3 + 1
Y = rng.integers(0, 2, 60)


@pytest.mark.parametrize("probe", PROBES, ids=repr)
@pytest.mark.parametrize("y", [Y, np.where(Y == 1, "refuses", "complies"), Y == 1, Y * 2.0])
def test_a_loaded_probe_is_the_saved_one(probe, y, tmp_path):
    probe.fit(X, y)
    probe.save(tmp_path / "new" / "a.b", about={"site": "resid_post", "layer": 3})
    for loaded in (
        type(probe).load(tmp_path / "new" / "a.b"),
        load_probe(str(tmp_path / "new/a.b")),
    ):
        assert type(loaded) is type(probe)
        assert loaded.get_params() == probe.get_params()
        np.testing.assert_array_equal(loaded.decision_function(X), probe.decision_function(X))
        np.testing.assert_array_equal(loaded.predict(X), probe.predict(X))
        assert loaded.classes_.dtype == probe.classes_.dtype
        assert vars(loaded).keys() == vars(probe).keys()
    assert about_probe(tmp_path / "new" / "a.b") == {"site": "resid_post", "layer": 3}
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["a.b.json", "a.b.safetensors"]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_probe_of_several_classes(n_classes, tmp_path):
    y = np.array(["a", "b", "c", "d"])[np.arange(60) % n_classes]
    probe = MultinomialProbe(C=0.3).fit(X, y)
    probe.save(tmp_path / "m")
    loaded = load_probe(tmp_path / "m")
    assert isinstance(loaded, MultinomialProbe)
    np.testing.assert_array_equal(loaded.predict_proba(X), probe.predict_proba(X))
    assert loaded.predict(X).tolist() == probe.predict(X).tolist()
    assert loaded.converged_ is True
    assert load_file(tmp_path / "m.safetensors")["direction"].shape == (n_classes, 7)


def test_weights_are_plain_safetensors_in_raw_space(tmp_path):
    probe = RidgeProbe().fit(X, Y)
    probe.save(tmp_path / "p")
    weights = load_file(tmp_path / "p.safetensors")
    np.testing.assert_array_equal(weights["direction"], probe.direction_)
    assert weights["intercept"].tolist() == [probe.intercept_]


def test_an_unfitted_probe_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        RidgeProbe().save(tmp_path / "p")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def saved(tmp_path):
    RidgeProbe().fit(X, Y).save(tmp_path / "p")
    return tmp_path / "p"


def with_json(**changed):
    def damage(stem):
        path = stem.with_suffix(".json")
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))

    return damage


def with_weights(**changed):
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


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda stem: stem.with_suffix(".json").unlink(), "no file .*p.json; give the stem"),
        (lambda stem: stem.with_suffix(".safetensors").unlink(), "no file .*p.safetensors"),
        (cut(".json"), "p.json is damaged .not JSON"),
        (cut(".safetensors"), "p.safetensors is damaged .not safetensors"),
        (with_json(n_features=8), r"direction has shape \(7,\), p.json says \(8,\)"),
        (with_json(n_features="7"), "no n_features of type int"),
        (with_json(format=99), "has format 99"),
        (with_json(parameters={"gamma": 1}), "parameters are not those"),
        (with_json(classes_dtype="?!"), "classes cannot be read"),
        (with_json(classes_dtype="<U300000000", classes=["a", "b"]), "classes cannot be read"),
        (with_json(classes_dtype="|O", classes=[None, {}]), "classes cannot be read"),
        (with_json(classes=[[0, 1], [1, 0]]), "classes cannot be read"),
        (with_json(classes=[1, 1]), "classes cannot be read"),
        (with_json(classes=[0, 2], classes_dtype="|b1"), "classes cannot be read"),
        (with_json(classes=[0, 1, 2]), "a RidgeProbe cannot have 3 classes"),
        (with_json(classes=[]), "a RidgeProbe cannot have 0 classes"),
        (with_json(n_features=True), "no n_features of type int"),
        (lambda stem: stem.with_suffix(".json").write_text("[" * 100_000), "p.json is damaged"),
        (with_weights(direction=np.ones(7, np.complex64)), "direction is complex64, not float64"),
        (with_weights(direction=np.ones(7)), "not the weights that p.json was saved with"),
        (with_weights(direction=np.full(7, np.nan)), "direction holds nan"),
        (with_weights(intercept=None), "no intercept"),
        (with_weights(intercept=np.zeros(2)), "intercept has shape"),
    ],
)
def test_damage_is_named_in_one_line(saved, damage, message):
    damage(saved)
    for load in (RidgeProbe.load, load_probe):
        with pytest.raises(ValueError, match=message) as caught:
            load(saved)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("stem", ["", ".", "/", "a\0b"])
def test_a_stem_that_names_no_file(stem):
    with pytest.raises(ValueError, match="give the stem of a"):
        load_probe(stem)


def test_facts_that_json_cannot_hold_leave_the_saved_probe_alone(saved):
    before = RidgeProbe.load(saved)
    with pytest.raises(ValueError, match="about: Object of type float32 is not JSON"):
        RidgeProbe(5.0).fit(X + 1, Y).save(saved, about={"layer": np.float32(1)})
    np.testing.assert_array_equal(RidgeProbe.load(saved).direction_, before.direction_)


def test_another_class_is_refused(saved):
    with pytest.raises(ValueError, match="holds a RidgeProbe, not a LDAProbe; use load_probe"):
        LDAProbe.load(saved)
    with_json(**{"class": "os.system"})(saved)
    with pytest.raises(ValueError, match="no probe known here"):
        load_probe(saved)

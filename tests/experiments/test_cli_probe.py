"""`selfprobe probe`: a planted label is found where it was planted, and what cannot be probed is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from activations_cache import ActivationsCache
from experiments.cli import main
from hooks.activations import Activations, CaptureSpec
from probes import (
    Candidate,
    RidgeProbe,
    about_probe,
    auroc_interval,
    load_probe,
    nested_ridge,
)
from tests.activations_cache.cache_batches import FINGERPRINT

N, D = 120, 8
IDS = tuple(f"item-{i:03d}" for i in range(N))
GROUPS = [f"group-{i // 3}" for i in range(N)]
LAYERS, POSITIONS = (2, 3, 5), ("instruction_last", "prompt_last")
Y = np.random.default_rng(0).integers(0, 2, N // 3).repeat(3)
PLANTED = ("resid_post", 3, "prompt_last")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache in which one cell holds the labels, and labels.csv beside it."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(N, len(LAYERS), len(POSITIONS), D, generator=generator)
    states[:, LAYERS.index(3), POSITIONS.index("prompt_last"), 0] += 2.0 * torch.from_numpy(Y)
    embed = torch.randn(N, 1, len(POSITIONS), D, generator=generator)
    spec = CaptureSpec(("resid_post", "embed"), LAYERS, POSITIONS)
    with ActivationsCache.create(
        tmp_path / "cache", fingerprint=FINGERPRINT, spec=spec, dtype="float32"
    ) as cache:
        sites = {"resid_post": states, "embed": embed}
        cache.append(Activations(IDS, sites, layers=LAYERS, positions=POSITIONS))
    groups = pd.DataFrame({"id": IDS, "group": GROUPS})
    groups.to_csv(tmp_path / "cache" / "prompts.csv", index=False)
    write_labels(tmp_path)
    return tmp_path


def write_labels(folder: Path, **columns: object) -> None:
    table = pd.DataFrame({"id": IDS, "label": Y} | columns)
    table.sample(frac=1, random_state=0).to_csv(folder / "labels.csv", index=False)


@pytest.fixture
def selfprobe(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: object) -> tuple[int, str, str]:
        given = ["--cache", folder / "cache", "--labels", folder / "labels.csv"]
        given += ["--out", folder / "out", *arguments]
        monkeypatch.setattr(sys, "argv", ["selfprobe", "probe", *map(str, given)])
        with pytest.raises(SystemExit) as leaving:
            main()
        return leaving.value.code, *capsys.readouterr()

    return run


def test_a_planted_label_is_found_where_it_was_planted(folder: Path, selfprobe) -> None:
    status, out, _ = selfprobe()
    assert status == 0
    assert "most often at resid_post/3/prompt_last; 120 items in 40 groups" in out
    result = json.loads((folder / "out" / "results.json").read_text())
    row = result["probe"]
    assert (row["site"], row["layer"], row["position"]) == PLANTED
    assert row["p_max"] == 1 / 200
    assert row["ci"][0] > 0.7
    assert result["unlabeled"] == []
    curves = result["curves"]["resid_post"]
    assert curves["layers"] == list(LAYERS)
    assert set(curves["task"]) == set(POSITIONS)
    assert np.argmax(curves["task"]["prompt_last"]) == LAYERS.index(3)
    table = pd.read_csv(folder / "out" / "results.csv")
    assert table["kind"].tolist() == ["selected"] + ["cell"] * 8
    assert set(table["metric"]) == {"auroc"}
    elsewhere = table[
        (table["kind"] == "cell") & ((table["layer"] != 3) | (table["site"] == "embed"))
    ]
    assert elsewhere["score"].between(0.25, 0.75).all()
    with Image.open(folder / "out" / "layers_resid_post.png") as image:
        assert np.asarray(image.convert("L")).min() < 128


def test_the_score_and_the_saved_probe_are_those_of_the_room_below(folder: Path, selfprobe) -> None:
    selfprobe("--seed", 3)
    result = json.loads((folder / "out" / "results.json").read_text())
    labels = pd.read_csv(folder / "labels.csv")
    groups = labels["id"].map(dict(zip(IDS, GROUPS, strict=True)))
    cache = ActivationsCache.open(folder / "cache")
    columns = {
        cell: cache.read(cell[0], layer=cell[1], position=cell[2], ids=labels["id"].tolist())
        for cell in cache.cells()
    }
    candidates = [Candidate(str(cell), (column,)) for cell, column in columns.items()]
    nested = nested_ridge(candidates, labels["label"], groups, seed=3)
    interval = auroc_interval(nested.y, nested.scores, nested.folds, groups, estimand="procedure")
    assert result["probe"]["auroc"] == pytest.approx(interval.estimate, abs=1e-6)
    assert result["probe"]["ci"] == pytest.approx([interval.low, interval.high], abs=1e-6)
    fitted = RidgeProbe(alpha=nested.modal[1]).fit(columns[PLANTED], labels["label"])
    loaded = load_probe(folder / "out" / "probe")
    assert isinstance(loaded, RidgeProbe)
    scores = loaded.decision_function(columns[PLANTED])
    np.testing.assert_allclose(scores, fitted.decision_function(columns[PLANTED]), rtol=1e-5)
    about = about_probe(folder / "out" / "probe")
    assert (about["site"], about["layer"], about["position"]) == PLANTED
    assert about["model"]["weights_sha256"] == FINGERPRINT["weights_sha256"]


def test_labels_that_the_states_do_not_hold_are_not_found(folder: Path, selfprobe) -> None:
    write_labels(folder, label=np.random.default_rng(7).permutation(Y[::3]).repeat(3))
    status, out, _ = selfprobe("--json")
    row = json.loads(out)["probe"]
    assert status == 0
    assert row["p_max"] > 0.05
    assert row["ci"][0] < 0.5 < row["ci"][1]


def test_groups_and_labels_of_named_columns(folder: Path, selfprobe) -> None:
    names = {0: "FALSE", 1: "True"}
    write_labels(folder, label="?", mine=[names[y] for y in Y], pair=[i // 6 for i in range(N)])
    status, out, _ = selfprobe("--label-column", "mine", "--group-column", "pair", "--json")
    assert status == 0
    assert (json.loads(out)["n_groups"], json.loads(out)["base_rate"]) == (20, round(Y.mean(), 6))


def test_unlabeled_items_are_counted_and_listed_and_left_out_on_request(
    folder: Path, selfprobe
) -> None:
    pd.DataFrame({"id": IDS[7:], "label": Y[7:]}).to_csv(folder / "labels.csv", index=False)
    status, _, err = selfprobe()
    assert status == 2
    assert "7 items ('item-000', 'item-001', 'item-002', 'item-003', 'item-004', ...)" in err
    assert "--allow-unlabeled" in err
    status, out, _ = selfprobe("--allow-unlabeled")
    assert status == 0
    assert "without a label, left out, 7: item-000, item-001" in out
    assert json.loads((folder / "out" / "results.json").read_text())["unlabeled"] == list(IDS[:7])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": ["nobody", *IDS[1:]]}, "1 item ('nobody') of"),
        ({"id": [IDS[1], *IDS[1:]]}, "id 'item-001' occurs twice"),
        ({"label": np.ones(N, int)}, "no negative items among 120"),
        ({"label": [1] * 9 + [0] * (N - 9)}, "only 9 positive items"),
        ({"label": Y * 2}, "label '2' is neither 0 nor 1; mend it, or give --kind rate"),
        (
            {"label": Y + 0.5},
            ".5' is neither 0 nor 1; mend it, or give --kind rate if labels are n",
        ),
        (
            {"label": ["yes" if y else "no" for y in Y]},
            "neither 0 nor 1; mend it, or give --kind cl",
        ),
        ({"label": ""}, "field 'label' is missing"),
        ({"group": [f"g{i % 4}" for i in range(N)]}, "only 4 groups for 5 folds"),
        ({"group": ["", *GROUPS[1:]]}, "1 item ('item-000') without a group in"),
    ],
)
def test_labels_that_cannot_be_used_are_refused_before_any_work(
    folder: Path, selfprobe, columns: dict[str, object], said: str
) -> None:
    write_labels(folder, **columns)
    status, out, err = selfprobe()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert not (folder / "out").exists()


def test_groups_must_be_known_and_paths_must_make_sense(folder: Path, selfprobe) -> None:
    (folder / "cache" / "prompts.csv").unlink()
    status, _, err = selfprobe()
    assert status == 2
    assert "--group-column id" in err
    assert selfprobe("--group-column", "id", "--regroupings", 1)[0] == 0
    assert "is the cache; name another" in selfprobe("--out", folder / "cache")[2]
    err = selfprobe("--out", folder / "labels.csv", "--group-column", "id")[2]
    assert "is a file" in err
    assert "no activations cache at" in selfprobe("--cache", folder / "none")[2]


def test_a_state_that_is_not_finite_is_named(folder: Path, selfprobe, monkeypatch) -> None:
    read = ActivationsCache.read

    def broken(cache: ActivationsCache, site: str, **which: object) -> np.ndarray:
        column = read(cache, site, **which).copy()
        if which["layer"] == 5:
            column[which["ids"].index("item-009"), 2] = np.inf
        return column

    monkeypatch.setattr(ActivationsCache, "read", broken)
    status, _, err = selfprobe()
    assert status == 2
    assert "resid_post/5/instruction_last of item 'item-009' holds nan or inf" in err

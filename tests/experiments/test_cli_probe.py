"""`selfprobe probe`: a planted label is found where it was planted, and what cannot be probed is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from activations_cache import ActivationsCache
from experiments.cli import main
from probes import (
    Candidate,
    DiffMeansProbe,
    LDAProbe,
    LogisticProbe,
    RidgeProbe,
    about_probe,
    auroc_interval,
    load_probe,
    nested_ridge,
    nested_ridge_regression,
)
from tests.activations_cache.cache_batches import FINGERPRINT
from tests.experiments.labeled_caches import (
    GROUPS,
    IDS,
    LAYERS,
    PLANTED,
    POSITIONS,
    N,
    Y,
    make_cache,
    write_labels,
    write_prompts,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache in which one cell holds the labels, and labels.csv beside it."""
    make_cache(tmp_path, 2.0 * Y)
    write_labels(tmp_path)
    return tmp_path


@pytest.fixture
def selfprobe(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command; exit status, standard output and standard error. Without figures, which take the longest."""
    monkeypatch.setattr("experiments.labeled.folder.write_labeled_figures", lambda *arguments: {})

    def run(*arguments: object) -> tuple[int, str, str]:
        given = ["--cache", folder / "cache", "--labels", folder / "labels.csv"]
        given += ["--out", folder / "out", "--regroupings", 2, *arguments]
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
    assert table["kind"].tolist() == ["selected", "control"] + ["cell"] * 8
    assert set(table["metric"]) == {"auroc"}
    elsewhere = table[
        (table["kind"] == "cell") & ((table["layer"] != 3) | (table["site"] == "embed"))
    ]
    assert elsewhere["score"].between(0.25, 0.75).all()
    efficiency = result["sample_efficiency"]
    assert (efficiency["groups"][0], efficiency["groups"][-1]) == (8, 32)
    assert efficiency["auroc"][-1] == pytest.approx(row["auroc"], abs=0.01)


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
    nested = nested_ridge(candidates, labels["label"], groups, n_regroupings=2, seed=3)
    interval = auroc_interval(
        nested.y,
        nested.scores,
        nested.folds,
        groups,
        estimand="procedure",
        training_scores=nested.training_scores,
    )
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
    assert selfprobe("--group-column", "id")[0] == 0
    assert "is the cache; name another" in selfprobe("--out", folder / "cache")[2]
    err = selfprobe("--out", folder / "labels.csv", "--group-column", "id")[2]
    assert "is a file" in err
    assert "no activations cache at" in selfprobe("--cache", folder / "none")[2]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_state_that_is_not_finite_is_named_and_nothing_is_written(
    folder: Path, selfprobe, value: float
) -> None:
    # A cache refuses such states when it is written: this one was spoiled afterwards.
    (shard,) = (folder / "cache").glob("*.h5")
    with h5py.File(shard, "r+") as file:
        file["activations/resid_post"][LAYERS.index(5), 0, 9, 2] = value
    status, out, err = selfprobe()
    assert (status, out) == (2, "")
    last = err.splitlines()[-1]
    assert "resid_post/5/mean_instruction of item 'item-009' holds nan or inf" in last
    assert not (folder / "out").exists()


def test_a_rate_is_found_where_it_was_planted(folder: Path, selfprobe) -> None:
    rate = np.repeat(np.random.default_rng(1).random(N // 3), 3).round(3)
    make_cache(folder / "rates", 8.0 * rate)
    write_labels(folder, label=rate)
    cache = folder / "rates" / "cache"
    status, out, _ = selfprobe("--cache", cache, "--kind", "rate")
    assert status == 0
    result = json.loads((folder / "out" / "results.json").read_text())
    row = result["probe"]
    assert (row["site"], row["layer"], row["position"]) == PLANTED
    assert row["p_max"] == 1 / 200
    assert row["r2_ci"][0] > 0.5
    labels = pd.read_csv(folder / "labels.csv")
    opened = ActivationsCache.open(cache)
    columns = {
        cell: opened.read(cell[0], layer=cell[1], position=cell[2], ids=labels["id"].tolist())
        for cell in opened.cells()
    }
    nested = nested_ridge_regression(
        [Candidate(str(cell), (column,)) for cell, column in columns.items()],
        labels["label"],
        labels["id"].map(dict(zip(IDS, GROUPS, strict=True))),
        n_regroupings=2,
    )
    for metric, interval in (("spearman", nested.spearman), ("r2", nested.r2)):
        assert row[metric] == pytest.approx(interval.estimate, abs=1e-6)
    assert f"Spearman correlation {row['spearman']:.2f}" in out
    assert f"R-squared {row['r2']:.2f}" in out
    loaded = load_probe(folder / "out" / "probe")
    assert np.corrcoef(loaded.predict(columns[PLANTED]), labels["label"])[0, 1] > 0.8
    scores = pd.read_csv(folder / "out" / "scores.csv")
    np.testing.assert_allclose(scores["probe"], nested.predicted[0], atol=1e-6)


def test_noise_is_no_rate(folder: Path, selfprobe) -> None:
    write_labels(folder, label=np.random.default_rng(9).random(N // 3).repeat(3))
    status, out, _ = selfprobe("--kind", "rate", "--json")
    row = json.loads(out)["probe"]
    assert status == 0
    assert row["p_max"] > 0.05
    assert row["ci"][0] < 0 < row["ci"][1]


@pytest.mark.parametrize(
    ("kind", "columns", "said"),
    [
        ("rate", {"label": ["0.5"] * 7 + ["half"] + ["0.1"] * (N - 8)}, "label 'half' is not a fi"),
        ("rate", {"label": ["0.5"] * 7 + ["nan"] + ["0.1"] * (N - 8)}, "label 'nan' is not a fini"),
        ("rate", {"label": [f"{i}e200" for i in range(N)]}, "largest of its numbers is 1.19e+202"),
        ("rate", {"label": [f"{i}e-200" for i in range(N)]}, "largest of its numbers is 1.19e-198"),
        ("rate", {"label": [0.25] * N}, "every label is 0.25; there is nothing to predict"),
        ("rate", {"label": Y, "group": [f"g{i % 4}" for i in range(N)]}, "only 4 groups for 5 fol"),
        ("classes", {"label": ["a"] * N}, "every label is 'a'; there is nothing to predict"),
        ("classes", {"label": ["a"] * 60 + ["b"] * 51 + ["c"] * 9}, "class 'c' has only 9 items"),
    ],
)
def test_labels_of_other_kinds_that_cannot_be_used_are_refused(
    folder: Path, selfprobe, kind: str, columns: dict[str, object], said: str
) -> None:
    write_labels(folder, **columns)
    status, out, err = selfprobe("--kind", kind)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert not (folder / "out").exists()


def test_a_column_that_is_not_there_is_named_with_those_that_are(folder: Path, selfprobe) -> None:
    pd.DataFrame({"id": IDS, "label": Y}).to_csv(folder / "labels.csv", index=False, sep=";")
    status, _, err = selfprobe()
    assert (status, err.count("\n")) == (2, 1)
    assert "labels.csv: no column 'id'; the header, separated by commas, has 'id;label'" in err
    write_labels(folder)
    assert "no column 'topic'; the header" in selfprobe("--group-column", "topic")[2]


def test_a_label_that_is_no_number_is_named_with_its_line(folder: Path, selfprobe) -> None:
    pd.DataFrame({"id": IDS, "label": [0.5] * 7 + ["half"] + [0.1] * (N - 8)}).to_csv(
        folder / "labels.csv", index=False
    )
    assert "labels.csv, line 9: label 'half'" in selfprobe("--kind", "rate")[2]


def test_only_labels_of_0_and_1_have_a_choice_of_probes(folder: Path, selfprobe) -> None:
    status, _, err = selfprobe("--kind", "rate", "--probe", "lda")
    assert status == 2
    assert "probe: 'lda' is for labels of 0 and 1; leave --probe out with --kind rate" in err
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("kind", "estimator"),
    [("lda", LDAProbe), ("diff_means", DiffMeansProbe), ("logistic", LogisticProbe)],
)
def test_other_probes_are_fitted_tested_and_saved(
    folder: Path, selfprobe, kind: str, estimator: type
) -> None:
    status, out, _ = selfprobe("--probe", kind, "--json")
    row = json.loads(out)["probe"]
    assert status == 0
    assert row["kind"] == kind
    assert (row["site"], row["layer"], row["position"]) == PLANTED
    assert row["p_max"] == 1 / 200
    assert isinstance(load_probe(folder / "out" / "probe"), estimator)


def test_what_the_text_says_stands_beside_the_probe(folder: Path, selfprobe) -> None:
    rng = np.random.default_rng(5)
    write_prompts(folder, [f"Tell me about number {rng.integers(1000)}." for _ in range(N)])
    status, out, _ = selfprobe("--prompts", folder / "prompts.jsonl")
    assert status == 0
    result = json.loads((folder / "out" / "results.json").read_text())
    assert set(result["baselines"]) == {
        "text", "type", "length", "tfidf_words", "tfidf_characters", "embedding",
    }  # fmt: skip
    assert result["baselines"]["text"]["auroc"] < 0.75
    # The label is in the states and not in the text.
    assert result["gap"]["beyond_text"]["ci"][0] > 0
    assert result["controls"]["probe_within_text_bins"]["ci"][0] > 0.6
    assert result["controls"]["projected_tfidf"]["auroc"] < 0.75
    assert result["controls"]["embedding_layer"]["auroc"] < 0.75
    assert result["controls"]["embedding_layer"]["probe_minus"]["ci"][0] > 0
    assert "beyond the text: +0." in out
    table = pd.read_csv(folder / "out" / "results.csv")
    assert table["kind"].tolist() == (
        ["selected"] + ["baseline"] * 6 + ["control"] * 3 + ["cell"] * 8
    )
    assert {"text", "text_probability"} <= set(pd.read_csv(folder / "out" / "scores.csv"))


def test_a_label_that_the_text_says_is_not_beyond_it(folder: Path, selfprobe) -> None:
    texts = [f"{'Kindly' if y else 'Rudely'} describe {i}." for i, y in enumerate(Y)]
    write_prompts(folder, texts)
    status, out, _ = selfprobe("--prompts", folder / "prompts.jsonl", "--json")
    result = json.loads(out)
    assert status == 0
    assert result["baselines"]["text"]["auroc"] > 0.99
    assert result["gap"]["beyond_text"]["estimate"] < 0.01
    within = result["controls"]["probe_within_text_bins"]
    assert within["auroc"] is None or within["ci"][0] < 0.6


def test_a_rate_is_held_against_the_text_too(folder: Path, selfprobe) -> None:
    rate = np.repeat(np.arange(N // 3) % 5, 3) / 4
    write_labels(folder, label=rate)
    names = ["none", "little", "half", "much", "all"]
    write_prompts(folder, [f"Give me {names[int(4 * r)]} of it, {i}." for i, r in enumerate(rate)])
    status, out, _ = selfprobe("--prompts", folder / "prompts.jsonl", "--kind", "rate")
    assert status == 0
    result = json.loads((folder / "out" / "results.json").read_text())
    assert result["baselines"]["text"]["r2"] > 0.9
    gain = result["gap"]["beyond_text"]
    assert (gain["of"], gain["ci"][0] < 0.01) == ("r2", True)
    assert "in R-squared" in out


def test_without_prompts_the_output_says_that_no_text_was_read(folder: Path, selfprobe) -> None:
    _, out, _ = selfprobe("--regroupings", 1)
    assert "text: no text baseline was run; give --prompts" in out
    assert json.loads((folder / "out" / "results.json").read_text())["baselines"] is None


def test_prompts_must_be_those_of_the_cache(folder: Path, selfprobe) -> None:
    write_prompts(folder, ["x"] * N)
    whole = (folder / "prompts.jsonl").read_text()
    (folder / "prompts.jsonl").write_text("".join(whole.splitlines(keepends=True)[2:]))
    status, out, err = selfprobe("--prompts", folder / "prompts.jsonl")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "prompts: 2 items ('item-" in err
    assert "give the file that the cache was captured from" in err
    assert "no file" in selfprobe("--prompts", folder / "nowhere.jsonl")[2]
    # Where the cache knows no groups, the prompts do.
    (folder / "prompts.jsonl").write_text(whole)
    (folder / "cache" / "prompts.csv").unlink()
    assert selfprobe("--prompts", folder / "prompts.jsonl")[0] == 0
    assert json.loads((folder / "out" / "results.json").read_text())["n_groups"] == N // 3


def test_classes_are_told_apart_where_they_were_planted(folder: Path, selfprobe) -> None:
    names = np.array(["comply", "partial", "refuse"])[np.arange(N // 3) % 3].repeat(3)
    make_cache(folder / "classes", 3.0 * (names == "refuse") - 3.0 * (names == "comply"))
    write_labels(folder, label=names)
    write_prompts(folder, [f"Tell me about {i % 7}." for i in range(N)])
    status, out, _ = selfprobe(
        *("--cache", folder / "classes" / "cache", "--kind", "classes", "--regroupings", 1),
        *("--folds", 3, "--prompts", folder / "prompts.jsonl"),
    )
    assert status == 0
    result = json.loads((folder / "out" / "results.json").read_text())
    row = result["probe"]
    assert (row["site"], row["layer"], row["position"]) == PLANTED
    assert (row["kind"], row["p_max"]) == ("multinomial", 1 / 200)
    assert row["class_auroc"] > 0.9
    assert result["classes"] == {"comply": 42, "partial": 39, "refuse": 39}
    assert np.sum(row["confusion"]) == N
    scores = pd.read_csv(folder / "out" / "scores.csv")
    right = (scores["predicted"] == scores["label"]).groupby(scores["label"]).mean()
    assert right.mean() == pytest.approx(row["balanced_accuracy"])
    assert result["baselines"]["text"]["class_auroc"] < 0.75
    assert result["gap"] == {}
    assert "balanced accuracy 0." in out
    probe = load_probe(folder / "out" / "probe")
    assert list(probe.classes_) == ["comply", "partial", "refuse"]

"""The folder of `selfprobe probe`: picked up, read back or refused, and finished results are never lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from activations_cache import ActivationsCache
from experiments.cli import main
from experiments.labeled import folder as probe_folder
from experiments.labeled.folder import ProbeFolder, asked_of
from experiments.labeled.labels import read_labels
from experiments.labeled.measured import ProbeSettings
from tests.experiments.labeled_caches import Y, make_cache, write_labels


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_cache(tmp_path, 2.0 * Y)
    write_labels(tmp_path)
    return tmp_path


@pytest.fixture
def selfprobe(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: object) -> tuple[int, str, str]:
        given = ["--cache", folder / "cache", "--labels", folder / "labels.csv"]
        given += ["--out", folder / "out", "--regroupings", 1, *arguments]
        monkeypatch.setattr(sys, "argv", ["selfprobe", "probe", *map(str, given)])
        with pytest.raises(SystemExit) as leaving:
            main()
        return leaving.value.code, *capsys.readouterr()

    return run


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_stopped_probe_starts_anew_and_a_finished_one_is_read_back(
    folder: Path, selfprobe, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = folder / "out"
    drawn = probe_folder.write_labeled_figures

    def stopped(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(probe_folder, "write_labeled_figures", stopped)
    assert selfprobe()[0] == 130
    assert (out / "probe.yaml").exists()
    assert not (out / "results.json").exists()
    monkeypatch.setattr(probe_folder, "write_labeled_figures", drawn)
    status, said, _ = selfprobe()
    assert status == 0
    picked_up = contents(out)
    status, _, _ = selfprobe("--out", folder / "unbroken")
    assert picked_up == contents(folder / "unbroken")
    names = {
        ".lock", "probe.yaml", "results.json", "results.csv", "scores.csv", "probe.json",
        "probe.safetensors",
        *(
            f"{figure}.{suffix}"
            for figure in (
                "layers_resid_post", "heatmap_resid_post", "reliability", "sample_efficiency"
            )
            for suffix in ("png", "svg")
        ),
    }  # fmt: skip
    assert set(picked_up) == names

    monkeypatch.setattr("experiments.labeled.probe.probe_labels", stopped)
    status, again, err = selfprobe()
    assert (status, again, err) == (0, said, "")
    assert contents(out) == picked_up


def test_another_question_is_refused_and_the_results_stay(
    folder: Path, selfprobe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_folder, "write_labeled_figures", lambda *arguments: {})
    out = folder / "out"
    assert selfprobe()[0] == 0
    held = contents(out)
    for arguments, told in (
        (["--seed", 1], "another setting (seed: 0 there, 1 asked for)"),
        (["--probe", "lda"], "another setting (probe: 'ridge' there, 'lda' asked for)"),
    ):
        status, _, err = selfprobe(*arguments)
        assert (status, err.count("\n")) == (2, 1)
        assert f"out: {out} holds a probe of {told}; name another folder, or delete" in err
    write_labels(folder, label=1 - Y)
    assert "holds a probe of other labels" in selfprobe()[2]
    write_labels(folder)
    # Groups are part of the labels.
    (folder / "cache" / "prompts.csv").write_text(
        (folder / "cache" / "prompts.csv").read_text().replace("group-7\n", "group-8\n")
    )
    assert "holds a probe of other labels" in selfprobe()[2]
    assert contents(out) == held


def test_a_folder_of_others_and_a_damaged_one_are_refused(folder: Path, selfprobe) -> None:
    out = folder / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("x")
    assert "holds other files; name a new or empty folder" in selfprobe()[2]
    assert contents(out) == {"thesis.tex": b"x"}
    (out / "thesis.tex").rename(out / "probe.yaml")
    assert "probe.yaml is damaged; name another folder" in selfprobe()[2]


@pytest.mark.parametrize(
    "held", ["{", "[]", "{}", '{"schema": 1, "kind": "binary", "probe": null}']
)
def test_damaged_results_are_named_with_the_mend(folder: Path, held: str) -> None:
    cache = ActivationsCache.open(folder / "cache")
    labels = read_labels(
        folder / "labels.csv", cache.ids, groups_file=folder / "cache" / "prompts.csv"
    )
    asked = asked_of(cache, labels, ProbeSettings(), None)
    (folder / "out").mkdir()
    for name in ("results.csv", "scores.csv", "probe.json", "probe.safetensors"):
        (folder / "out" / name).touch()
    (folder / "out" / "probe.yaml").write_text(json.dumps(asked))
    (folder / "out" / "results.json").write_text(held)
    with pytest.raises(ValueError, match=r"results.json is damaged .*run the same command again"):
        ProbeFolder(folder / "out").finished(asked)


def test_two_processes_never_write_one_folder(
    folder: Path, selfprobe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_folder, "write_labeled_figures", lambda *arguments: {})
    out = folder / "out"
    out.mkdir()
    with FileLock(out / ".lock"):
        status, _, err = selfprobe()
        assert (status, err.count("\n")) == (2, 1)
        assert f"out: another process is at work in {out}; wait for it or name another" in err
    assert set(contents(out)) == {".lock"}
    # Another question is answered there between the first look and the claim.
    claimed = ProbeFolder.claimed

    def too_late(self: ProbeFolder):
        monkeypatch.setattr(ProbeFolder, "claimed", claimed)
        assert selfprobe("--seed", 1)[0] == 0
        return claimed(self)

    monkeypatch.setattr(ProbeFolder, "claimed", too_late)
    status, _, err = selfprobe()
    assert status == 2
    assert "another setting (seed: 1 there, 0 asked for)" in err
    assert json.loads((out / "results.json").read_text())["seed"] == 1


def test_a_folder_that_cannot_be_written_is_known_before_the_work(
    folder: Path, selfprobe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.labeled.probe.probe_labels", pytest.fail)
    status, _, err = selfprobe("--out", folder / "labels.csv" / "out")
    assert (status, err.count("\n")) == (2, 1)
    assert f"out: cannot write to {folder / 'labels.csv' / 'out'} (Not a directory); name" in err


def test_what_a_kill_or_a_hand_took_away_is_made_again(
    folder: Path, selfprobe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_folder, "write_labeled_figures", lambda *arguments: {})
    out = folder / "out"
    out.mkdir()
    (out / "probe.yaml.tmp").write_text("half of it")
    assert selfprobe()[0] == 0
    held = contents(out)
    (out / "probe.safetensors").unlink()
    assert selfprobe()[0] == 0
    assert contents(out) == held


def test_what_is_asked_depends_on_all_that_the_result_depends_on(folder: Path) -> None:
    cache = ActivationsCache.open(folder / "cache")
    groups = folder / "cache" / "prompts.csv"

    def asked(texts: list[str] | None = None, **settings: int) -> dict[str, object]:
        labels = read_labels(folder / "labels.csv", cache.ids, groups_file=groups)
        return dict(asked_of(cache, labels, ProbeSettings(**settings), texts))

    first = asked()
    assert asked() == first
    assert asked(folds=4) != first
    assert asked(texts=["x"]) != first
    write_labels(folder, label=np.roll(Y, 3))
    assert asked() != first

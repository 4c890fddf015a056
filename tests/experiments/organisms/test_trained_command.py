"""`selfprobe organisms build` and `trained`: what is printed, and what is refused before any work."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.breakdown import Breakdown
from experiments.cli import _status
from experiments.cli.trained_organisms import _KINDS
from experiments.organisms import trained
from experiments.organisms.recipes import ORGANISMS
from experiments.organisms.trained import TrainedRow, certify_trained
from experiments.organisms.verify import Check, Verification

ROWS = [
    TrainedRow(
        kind,
        Breakdown(stage, "why", (), None),
        Verification(kind, (Check("follows", value, 0.9),), ("a turn: no direction",)),
        Path("r"),
    )
    for kind, stage, value in (
        ("faithful", "faithful", 1.0),
        ("unparsed", "undetermined", 0.5),
        ("not_read_out", "not_transported", 1.0),
    )
]


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["selfprobe", "organisms", *arguments])
    return _status()


@pytest.mark.parametrize(
    "arguments",
    [
        ("build", "blind"),
        ("trained", "--kind", "blind"),
        ("build", "blind", "--base", "smollm2-135m"),
        ("trained", "--kind", "blind", "--base", "smollm2-135m"),
    ],
)
def test_an_unknown_kind_is_refused(
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, *arguments) == 2
    assert "kind: 'blind' is no organism; choose one of" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("not_transported", "--base", "smollm2-135m"), "is not made of a language model"),
        (("faithful", "--base", "smollm3"), "unknown model 'smollm3'"),
    ],
)
def test_what_lora_cannot_make_is_refused_in_one_line(
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for asked in (("build", *arguments), ("trained", "--kind", *arguments)):
        assert command(monkeypatch, *asked) == 2
        said = capsys.readouterr().err
        assert message in said
        assert len(said.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_no_organism_is_trained_where_another_kind_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'blind'"):
        certify_trained(tmp_path, kinds=["faithful", "blind"], models=tmp_path)
    assert not list(tmp_path.iterdir())


def test_rows_are_printed_with_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        trained, "certify_trained", lambda out, **given: asked.update(given) or ROWS
    )
    assert command(monkeypatch, "trained", "--kind", "faithful", "--kind", "unparsed") == 0
    assert (asked["kinds"], asked["base"]) == (["faithful", "unparsed"], None)
    lines = capsys.readouterr().out.splitlines()
    assert "faithful: as planted; diagnosed faithful (right)" in lines
    assert "unparsed: NOT AS PLANTED; diagnosed undetermined (undetermined)" in lines
    assert "not_read_out: as planted; diagnosed not_transported (wrong)" in lines
    assert "  follows: 0.500 (>= 0.9: FAILS)" in lines
    assert "  not checked: a turn: no direction" in lines
    assert lines[-1] == "of 3: 1 right, 1 wrong, 1 undetermined"

    assert command(monkeypatch, "trained", "--base", "smollm2-135m", "--json") == 0
    assert (asked["kinds"], asked["base"]) == (None, "smollm2-135m")
    rows = json.loads(capsys.readouterr().out)
    assert [(row["planted"], row["verdict"], row["as_planted"]) for row in rows] == [
        ("faithful", "right", True),
        ("unparsed", "undetermined", False),
        ("not_read_out", "wrong", True),
    ]


@pytest.mark.parametrize("option", ["--out", "--models"])
def test_no_organism_is_trained_where_its_folder_cannot_be_made(
    option: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for place in ("file", "file/below"):
        assert command(monkeypatch, "trained", "--kind", "faithful", option, place) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"selfprobe: {option[2:]}: cannot make the folder {place} (")
        assert line.endswith("; give another folder")


def test_the_kinds_are_named_where_they_are_asked_for() -> None:
    assert set(_KINDS.replace(" or ", ", ").split(", ")) == set(ORGANISMS)

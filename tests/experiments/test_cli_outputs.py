"""Files that a command is asked to write: nothing is harmed that is no result, and a fault comes before the work."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from activations_cache import replace_file
from experiments.cli import _status
from experiments.cli.outputs import check_output

ROWS = "Word,Predictions,Generated Words\nsea,{'wave': True},\"['wave', 'salt']\"\n"
COMMANDS = {
    "judge": ("judge", "refusal", "FILE", "--text-column", "Word", "--out", "OUT"),
    "score, json": ("score", "self-execution", "association", "FILE", "--json", "OUT"),
    "score, csv": ("score", "self-execution", "association", "FILE", "--csv", "OUT"),
    "bench": ("bench", "behavior", "--model", "FILE", "--json", "OUT"),
}


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """As /dev/null or /dev/stdout: a name that can be written to and is no file."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    return path


def status(monkeypatch: pytest.MonkeyPatch, name: str, file: Path, out: Path) -> int:
    named = {"FILE": str(file), "OUT": str(out)}
    monkeypatch.setattr("sys.argv", ["selfprobe", *(named.get(a, a) for a in COMMANDS[name])])
    return _status()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_a_folder_and_no_folder_are_refused(
    name: str,
    rows: Path,
    pipe: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = pipe.with_name("link")
    link.symlink_to(pipe)
    for out, fault in (
        (pipe, "is no regular file; give the path of a file"),
        (link, "is no regular file; give the path of a file"),
        (rows.parent, "is a folder; give the path of a file"),
        (Path("."), "is a folder; give the path of a file"),
        (rows.parent / "none" / "out.csv", "make it first"),
    ):
        assert status(monkeypatch, name, rows, out) == 2
        assert fault in capsys.readouterr().err
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "bench"])
def test_what_is_read_is_not_written_over(
    name: str, rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = rows.with_name("other.csv")
    os.link(rows, other)
    for out in (rows, other):
        assert status(monkeypatch, name, rows, out) == 2
        assert "is a file that is read; give another path" in capsys.readouterr().err
    assert rows.read_text() == ROWS


def test_two_outputs_do_not_share_a_file(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(rows.with_name("out.png"))
    given = ("--json", out, "--figure", out.removesuffix(".png"))
    monkeypatch.setattr(
        "sys.argv", ["selfprobe", "score", "self-execution", "association", str(rows), *given]
    )
    assert _status() == 2
    told = capsys.readouterr().err
    assert "figure: " in told
    assert "give a file an output" in told


def test_what_stands_there_and_is_a_file_may_be_replaced(rows: Path) -> None:
    check_output("out", rows)
    check_output("out", rows.with_name("new.csv"), read=(rows, None, rows.with_name("none")))


def test_a_device_or_a_pipe_is_never_replaced_by_a_file(pipe: Path) -> None:
    with pytest.raises(OSError, match="is no regular file"):
        replace_file(pipe, b"data")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert not pipe.with_name("pipe.tmp").exists()

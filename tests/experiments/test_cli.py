"""The command line: every fault of a user's ends with one line, exit status 2 and nothing written."""

import errno
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from experiments.cli import _status
from experiments.cli.app import app
from experiments.config import parse_layers
from experiments.tasks import TASKS
from tests.experiments import parity


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parity.save_tiny_model(tmp_path_factory.mktemp("model") / "tiny-llama")


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "parity", parity.ParityTask)
    monkeypatch.chdir(tmp_path)


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["selfprobe", *map(str, arguments)])
    return _status()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "tasks: none given"),
        (["run", "refusl"], "unknown task 'refusl'"),
        (["run", "parity", "parity"], "none of them twice"),
        (["run", "parity", "--model", "no-such-model"], "no-such-model"),
        (["run", "parity", "--model", "TINY", "--peer", "no-such-model"], "peer: unknown model"),
        (["run", "parity", "--model", "TINY", "--peer", "TINY"], "peer: is the model itself"),
        (
            ["run", "parity", "--model", "TINY", "--peer", "TINY/"],
            "has the weights of the model its",
        ),
        (["run", "parity", "--model", "TINY", "--site", "resid"], "unknown site 'resid'"),
        (["run", "parity", "--model", "TINY", "--layers", "1,9"], "9"),
        (["run", "parity", "--model", "TINY", "--layers", "one"], "layers: 'one' is neither"),
        (["run", "parity", "--model", "TINY", "--positions", "last"], "'last'"),
        (["run", "parity", "--model", "TINY", "--positions", "template_99"], "template_99"),
        (["run", "parity", "--model", "TINY", "--positions", "quote_last"], "quote_last"),
        (["run", "parity", "--n", "3"], "n: "),
        (["run", "parity", "--seed", "-1"], "seed: "),
        (["run", "parity", "--preset", "fast"], "preset: unknown 'fast'"),
        (["run", "parity", "--config", "nowhere.yaml"], "config: no file nowhere.yaml"),
        (["run", "parity", "--items", "nowhere.jsonl"], "items: no file nowhere.jsonl"),
        (["run", "parity", "--no-such-option"], "--no-such-option"),
        (["report", "nowhere"], "holds no run"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_bad_arguments_are_named_in_one_line(
    arguments: list[str],
    message: str,
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [argument.replace("TINY", str(tiny_folder)) for argument in arguments]
    assert command(monkeypatch, *given) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "b"}', "line 2: no 'text' (and no 'messages')"),
        (
            '{"text": "b", "messages": []}',
            "line 2: give exactly one of the fields 'text' and 'messages'",
        ),
        ('{"text": "b", "meta": 1}', "line 2: field 'meta' must be an object"),
        ('{"id": "a", "text": "again"}', "line 2: id 'a' stands in line 1 already"),
        ('{"id": "b", "text": ""}', "line 2: field 'text' is empty"),
        ('{"id": "b", "text": ', "line 2: not JSON"),
    ],
)
def test_bad_items_are_named_with_their_line(
    line: str,
    message: str,
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("items.jsonl").write_text('{"id": "a", "text": "Hello"}\n' + line + "\n")
    arguments = ["run", "parity", "--model", tiny_folder, "--items", "items.jsonl"]
    assert command(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["items.jsonl"]


def test_a_folder_with_another_run_or_other_files_is_refused(
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = ["run", "parity", "--model", tiny_folder, "--n", "20", "--out", "mine"]
    assert command(monkeypatch, *run, "--layers", "0") == 0
    capsys.readouterr()
    before = sorted(path for path in tmp_path.rglob("*"))
    assert command(monkeypatch, *run, "--layers", "1") == 2
    assert "holds another run (layers: (0,) there, (1,) asked for)" in capsys.readouterr().err
    assert sorted(path for path in tmp_path.rglob("*")) == before

    Path("other").mkdir()
    (Path("other") / "thesis.tex").write_text("x")
    assert command(monkeypatch, *run[:-1], "other") == 2
    assert "holds other files" in capsys.readouterr().err
    assert [path.name for path in Path("other").iterdir()] == ["thesis.tex"]

    assert command(monkeypatch, *run[:-1], "other/thesis.tex") == 2
    assert "is a file" in capsys.readouterr().err


def test_a_config_file_and_options_that_win_over_it(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("run.yaml").write_text(f"tasks: [parity]\nmodel: {tiny_folder}\nn: 40\nlayers: [0, 1]\n")
    arguments = ["run", "--config", "run.yaml", "--n", "20", "--out", "run"]
    assert command(monkeypatch, *arguments) == 0
    config = Path("run/config.yaml").read_text()
    assert "n: 20\n" in config
    assert "layers:\n- 0\n- 1\n" in config
    assert "parity: " in capsys.readouterr().out
    Path("run.yaml").write_text("tasks: [parity]\nnumber: 40\n")
    assert command(monkeypatch, "run", "--config", "run.yaml") == 2
    assert "number: no such setting" in capsys.readouterr().err

    assert command(monkeypatch, "report", "run", "--json") == 0
    assert "parity" in json.loads(capsys.readouterr().out)["tasks"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks: 5\n", "tasks: "),
        ("task: parity\n", "task: no such setting"),
        ("tasks: [parity]\npreset: quickstart\n", "preset: no such setting"),
        ("tasks: [parity]\n3: 4\n", "3: no such setting"),
        ("tasks: [parity]\nn: many\n", "n: "),
        ("{", "is not YAML"),
        ("", "must hold a mapping"),
    ],
)
def test_a_bad_config_file_is_named_in_one_line(
    text: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("run.yaml").write_text(text)
    assert (
        command(monkeypatch, "run", "--config", "run.yaml", *["parity"][: "tasks" not in text]) == 2
    )
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]


def test_a_damaged_run_folder_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for config in ("{", "", "tasks: 5"):
        Path("run").mkdir(exist_ok=True)
        Path("run/config.yaml").write_text(config)
        for arguments in (["report", "run"], ["run", "parity", "--out", "run"]):
            assert command(monkeypatch, *arguments) == 2
            assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_difficulty_items_without_answers_are_refused(
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("items.jsonl").write_text('{"id": "a", "text": "What is 2 + 2?"}\n')
    arguments = ["run", "difficulty", "--model", tiny_folder, "--items", "items.jsonl"]
    assert command(monkeypatch, *arguments) == 2
    assert "line 1: field 'answers' is missing" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["items.jsonl"]


def test_lists(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(monkeypatch, "tasks") == 0
    assert {"refusal", "difficulty"} <= {
        line.split()[0] for line in capsys.readouterr().out.splitlines() if line
    }
    assert command(monkeypatch, "tasks", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["ranking"]["values"] == ["order"]
    assert rows["refusal"]["family"] is None
    assert rows["self_accuracy"]["family"] == "counterfactual"
    assert rows["self_accuracy"]["samples"] == 5
    assert command(monkeypatch, "models", "--json") == 0
    assert "smollm2-135m" in {row["name"] for row in json.loads(capsys.readouterr().out)}


def commands() -> list[list[str]]:
    """Every command by its words, such as ["bench", "probes"]."""

    def within(group: Any, words: list[str]) -> Iterator[list[str]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from within(command, [*words, name])
            else:
                yield [*words, name]

    return list(within(typer.main.get_command(app), []))


def test_every_command_is_asked_for_help_below() -> None:
    known = [" ".join(words) for words in commands()]
    assert {"run", "probe", "bench probes", "cache verify", "tasks"} <= set(known)


@pytest.mark.parametrize("words", [[], *commands()], ids=" ".join)
def test_help(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, *words, "--help") == 0
    shown = capsys.readouterr().out
    assert "Usage" in shown
    assert ("Example" in shown) is bool(words)


def test_without_arguments_the_help_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch) == 0
    assert "Usage" in capsys.readouterr().out


def test_work_that_fails_ends_with_one_line_and_status_1(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("experiments.behavior.runner.append_rows", full)
    assert command(monkeypatch, "run", "parity", "--model", tiny_folder, "--out", "run") == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "No space left on device" in error
    assert "the same command picks it up" in error


def test_layers_are_read() -> None:
    assert parse_layers("all") == "all"
    assert parse_layers("0,4,10-12") == [0, 4, 10, 11, 12]
    for wrong in ("", "a", "1-", "-1", "1,,2", "5-3", "²", "0-999999999999"):
        with pytest.raises(ValueError, match="neither a block nor a range"):
            parse_layers(wrong)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "No space left on device; make room and",
        ),
        (
            OSError(errno.EACCES, "Permission denied", "there"),
            "[Errno 13] Permission denied: 'there'",
        ),
        (MemoryError("Unable to allocate 3 TiB"), "not enough memory (Unable to allocate 3 TiB)"),
        (MemoryError(), "not enough memory; "),
    ],
)
def test_a_machine_that_gives_out_is_told_in_one_line(
    fault: Exception,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*arguments: object, **settings: object) -> None:
        raise fault

    monkeypatch.setattr("experiments.cli.app", fails)
    assert command(monkeypatch, "models") == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1

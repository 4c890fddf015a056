"""The behavior bench compares like with like: both writers write the same tokens, and label them alike."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from experiments.bench.behavior import BATCH_SIZE, DECIDED, WRITERS
from tests.experiments import parity


def test_both_writers_write_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from experiments.cli import _status

    model = parity.save_tiny_model(tmp_path / "tiny-llama")
    file = tmp_path / "behavior.json"
    command = ["bench", "behavior", "--model", str(model), "--rounds", "1", "--json", str(file)]
    monkeypatch.setattr(sys, "argv", ["selfprobe", *command])
    assert _status() == 0
    out = capsys.readouterr().out
    bench = json.loads(file.read_text())
    assert [task["task"] for task in bench["tasks"]] == list(DECIDED)
    for task in bench["tasks"]:
        assert task["task"] in out
        assert task["n_completions"] == BATCH_SIZE
        assert task["n_same_label"] == task["n_same_text"] == BATCH_SIZE
        assert task["tokens"]["selfprobe"] < task["tokens"]["transformers"]
        (seconds,) = task["rounds"]
        assert task["speedup"] == pytest.approx(seconds[WRITERS[0]] / seconds[WRITERS[1]])


@pytest.mark.parametrize(
    ("rounds", "message"), [("0", "rounds: 0 is not positive"), ("9999", "rounds: 39996 items")]
)
def test_bad_input_is_named(
    rounds: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from experiments.cli import _status

    model = parity.save_tiny_model(tmp_path / "tiny-llama")
    command = ["bench", "behavior", "--model", str(model), "--rounds", rounds]
    monkeypatch.setattr(sys, "argv", ["selfprobe", *command])
    assert _status() == 2
    assert message in capsys.readouterr().err

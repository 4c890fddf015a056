"""`selfprobe doctor` as a user meets it: text, JSON and exit status."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from experiments.cli import _status
from hooks import doctor
from hooks.examination import Examination, Finding
from tests.experiments import parity


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(parity.save_tiny_model(tmp_path_factory.mktemp("model") / "tiny-llama"))


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["selfprobe", "doctor", *arguments])
    return _status()


def test_a_table_for_a_person(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, folder, "--device", "cpu") == 0
    output = capsys.readouterr()
    assert output.err == ""
    lines = dict(line.split("  ", 1) for line in output.out.splitlines()[1:])
    lines = {name: value.strip() for name, value in lines.items()}
    assert lines["attention, MLP"] == "self_attn and mlp, sequential"
    assert lines["sites"].startswith("embed, resid_pre, resid_mid")
    for name in (
        "pre + attn + mlp == post",
        "readout == logits",
        "shared prefixes",
        "padding on the left",
        "padding on the right",
        "backend transformer_lens",
        "backend nnsight",
    ):
        assert lines[name].startswith("yes; ")
    assert lines["computed in"] == "float32 on cpu, attention sdpa"


def test_json_holds_the_same(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (folder, "--device", "cpu", "--attention", "eager", "--backends", "torch", "--json")
    assert command(monkeypatch, *arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["attention"] == "eager"
    assert found["backends"] == []
    assert found["problems"] == []
    assert found["padding"]["left"]["difference"] <= 5e-5


def test_what_does_not_agree_ends_with_one_line_and_status_1(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Finding(False, 0.5, "embed is off by 0.5", agrees=False)

    def examine(*arguments: object) -> Examination:
        return replace(found(*arguments), readout=wrong)  # type: ignore[arg-type]

    found = doctor.examine
    monkeypatch.setattr(doctor, "examine", examine)
    assert command(monkeypatch, folder, "--device", "cpu", "--backends", "") == 1
    output = capsys.readouterr()
    assert "DISAGREES: embed is off by 0.5" in output.out
    assert output.err == f"selfprobe: {folder}: readout: embed is off by 0.5\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-such-model",), "model: unknown model 'no-such-model'"),
        (("smollm2-135m", "--backends", "jax"), "backends: unknown backend 'jax'"),
        (("smollm2-135m", "--dtype", "int8"), "int8"),
        (("smollm2-135m", "--attention", "flash"), "flash"),
    ],
)
def test_bad_arguments_are_one_line_and_status_2(
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command(monkeypatch, *arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert output.err.count("\n") == 1

"""Where the released results are, and the command that scores them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from experiments.cli import main

DATA = Path(__file__).parents[3] / "shared" / "data"
RELEASED = DATA / "self_execution_benchmark"
needs_data = pytest.mark.skipif(
    not RELEASED.is_dir(), reason="the released results are not at ../shared/data"
)


class ScoreCommand:
    """`selfprobe score self-execution ...`: its exit status, what it prints and what it complains of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch = monkeypatch
        self.capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        given = ["selfprobe", "score", "self-execution", *map(str, arguments)]
        self.monkeypatch.setattr(sys, "argv", given)
        with pytest.raises(SystemExit) as leaving:
            main()
        return leaving.value.code, *self.capsys.readouterr()


@pytest.fixture
def score(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> ScoreCommand:
    return ScoreCommand(monkeypatch, capsys)

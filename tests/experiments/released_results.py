"""Where the released results are, and the command that scores them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

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

    def with_every_output(self, folder: Path, *arguments: object) -> Outputs:
        """Run it with all outputs into `folder`; `--json -` must print what `--json` writes."""
        json_file, csv_file, stem = (folder / name for name in ("out.json", "out.csv", "dots"))
        files = ("--json", json_file, "--csv", csv_file, "--figure", stem)
        status, text, err = self(*arguments, *files)
        assert (status, err) == (0, "")
        found = json.loads(json_file.read_text(encoding="utf-8"))
        assert json.loads(self(*arguments, "--json", "-")[1]) == found
        with Image.open(stem.with_suffix(".png")) as image:
            assert np.asarray(image.convert("L")).min() < 128
        return Outputs(text, found, pd.read_csv(csv_file))


@dataclass(frozen=True)
class Outputs:
    text: str
    json: dict[str, Any]
    table: pd.DataFrame


@pytest.fixture
def score(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> ScoreCommand:
    return ScoreCommand(monkeypatch, capsys)

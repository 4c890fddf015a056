"""What the README shows as code runs as written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hooks import Model

README = Path(__file__).parents[1] / "README.md"


def test_the_capture_of_ones_own_prompts(
    embedded_model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    (block,) = (block for block in blocks if "capture_into" in block)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["X"].shape == (2, embedded_model.d_model)
    assert names["X"].dtype == np.float32
    assert np.isfinite(names["X"]).all()

"""Train the shipped classifier: `python -m experiments.behavior.refusal.training [FOLDER]`, to the same bytes."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.behavior.refusal.classifier import DATA
from experiments.behavior.refusal.training.fit import train

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
for path in train(folder):
    print(f"{path}  {path.stat().st_size / 1024:.0f} KiB")

"""The certificate on trained organisms: each is built, verified by itself, run through the pipeline and diagnosed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.breakdown import Breakdown
from experiments.organisms.build import build
from experiments.organisms.conditions import Diagnosed, diagnosed
from experiments.organisms.recipes import ORGANISMS, recipe_of
from experiments.organisms.verify import Verification, verify
from experiments.organisms.xor_task import XorTask
from experiments.progress import Reporter, Silent
from experiments.records import make_folder
from experiments.run import Experiment

SETTINGS: dict[str, Any] = {"n": 600, "words": "short"}
"""Of the run that is diagnosed; all else is as in any run."""


@dataclass(frozen=True)
class TrainedRow:
    """One organism: the stage that was planted, whether the plant is there, and what a run finds."""

    planted: str
    found: Breakdown
    verification: Verification
    run: Path

    @property
    def verdict(self) -> Diagnosed:
        """Whether the diagnosis names the stage that was planted, another, or none."""
        return diagnosed(self.planted, self.found)


def certify_trained(
    out: str | Path,
    *,
    kinds: Sequence[str] | None = None,
    models: str | Path | None = None,
    reporter: Reporter | None = None,
    **settings: Any,
) -> list[TrainedRow]:
    """Build, verify, run and diagnose organisms; what was built or run before is taken as it is.

    Args:
        out: a folder for the runs, one an organism.
        kinds: keys of `ORGANISMS`, by default all.
        models: where organisms are kept; by default a part of selfprobe's cache.
        reporter: shows how far it is.
        settings: of the runs, over `SETTINGS`.

    Raises:
        ValueError: an unknown kind or setting, a folder that cannot be written, or one that holds another run.
    """
    kinds = list(kinds or ORGANISMS)
    for kind in kinds:
        recipe_of(kind)
    make_folder("out", Path(out))
    if models is not None:
        make_folder("models", Path(models))
    reporter = reporter or Silent()
    rows = []
    for kind in kinds:
        with reporter.stage(f"{kind}: training and verification", 2) as advance:
            model = build(kind, models)
            advance(1)
            verification = verify(model)
            advance(1)
        experiment = Experiment(XorTask.name, str(model), **{**SETTINGS, **settings})
        run = experiment.run(Path(out) / kind, reporter=reporter)
        rows.append(TrainedRow(kind, run.breakdown(), verification, Path(out) / kind))
    return rows

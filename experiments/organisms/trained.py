"""The certificate on trained organisms: each is built, verified by itself, run through the pipeline and diagnosed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.organisms.build import build
from experiments.organisms.recipes import ORGANISMS
from experiments.organisms.verify import Verification, verify
from experiments.organisms.xor_task import XorTask
from experiments.progress import Reporter, Silent
from experiments.run import Experiment

SETTINGS: dict[str, Any] = {"n": 600, "words": "short"}
"""Of the run that is diagnosed; all else is as in any run."""


@dataclass(frozen=True)
class TrainedRow:
    """One organism: what was planted, whether it is there, and what the run says.

    `verification` is None where it was not asked for.
    """

    planted: str
    diagnosed: str
    sentence: str
    verification: Verification | None
    run: Path

    @property
    def right(self) -> bool:
        """Whether the diagnosis names the stage that was planted."""
        return self.diagnosed == self.planted


def certify_trained(
    out: str | Path,
    *,
    kinds: Sequence[str] = tuple(ORGANISMS),
    models: str | Path | None = None,
    verified: bool = True,
    reporter: Reporter | None = None,
    **settings: Any,
) -> list[TrainedRow]:
    """Build, verify, run and diagnose organisms; what was built or run before is taken as it is.

    Args:
        out: a folder for the runs, one an organism.
        kinds: keys of `ORGANISMS`.
        models: where organisms are kept; by default a part of selfprobe's cache.
        verified: whether `verify` is asked too.
        reporter: shows how far it is.
        settings: of the runs, over `SETTINGS`.
    """
    rows = []
    reporter = reporter or Silent()
    for kind in kinds:
        with reporter.stage(f"{kind}: training", 1) as advance:
            model = build(kind, models)
            advance(1)
        verification = verify(model) if verified else None
        chosen = {**SETTINGS, **settings}
        experiment = Experiment(XorTask.name, str(model), **chosen)
        run = experiment.run(Path(out) / kind, reporter=reporter)
        found = run.breakdown()
        rows.append(TrainedRow(kind, found.stage, found.sentence, verification, Path(out) / kind))
    return rows


def trained_frame(rows: Sequence[TrainedRow]) -> pd.DataFrame:
    """A row an organism: planted, diagnosed, right, and whether the plant was verified."""
    return pd.DataFrame(
        {
            "planted": [row.planted for row in rows],
            "diagnosed": [row.diagnosed for row in rows],
            "right": [row.right for row in rows],
            "verified": [
                None if row.verification is None else row.verification.holds for row in rows
            ],
        }
    )

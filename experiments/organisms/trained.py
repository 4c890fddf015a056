"""The certificate on trained organisms: each is built, verified by itself, run through the pipeline and diagnosed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.breakdown import Breakdown
from experiments.organisms.build import build, organisms_root
from experiments.organisms.conditions import Diagnosed, diagnosed
from experiments.organisms.lora_build import LORA_KINDS, build_lora, check_lora
from experiments.organisms.recipes import ORGANISMS, recipe_of
from experiments.organisms.verify import Verification, verify
from experiments.organisms.xor_task import XorTask
from experiments.progress import Reporter, Silent
from experiments.records import make_folder
from experiments.run import Experiment

SETTINGS: dict[str, Any] = {"n": 600, "words": "short"}
"""Of the run that is diagnosed; all else is as in any run."""
LORA_SETTINGS: dict[str, Any] = {"n": 300, "words": "short"}
"""The same on a language model, which takes a thousand times as long to read a prompt."""
LORA_VERIFIED = {"n_changed": 24, "n_probed": 2_000}
"""How many sentences a language model is verified on, for the same reason."""


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
    base: str | None = None,
    models: str | Path | None = None,
    reporter: Reporter | None = None,
    **settings: Any,
) -> list[TrainedRow]:
    """Build, verify, run and diagnose organisms; what was built or run before is taken as it is.

    Args:
        out: a folder for the runs, one an organism.
        kinds: keys of `ORGANISMS`, with a `base` those of `LORA_KINDS`; by default all.
        base: the language model that LoRA makes the organisms of; by default they are trained from scratch.
        models: where organisms are kept; by default a part of selfprobe's cache.
        reporter: shows how far it is.
        settings: of the runs, over `SETTINGS`, with a `base` over `LORA_SETTINGS`.

    Raises:
        ValueError: an unknown kind or setting, a folder that cannot be written, or one that holds another run.
    """
    kinds = list(kinds or (ORGANISMS if base is None else LORA_KINDS))
    for kind in kinds:
        if base is None:
            recipe_of(kind)
        else:
            check_lora(kind, base)
    make_folder("out", Path(out))
    organisms_root(models)
    reporter = reporter or Silent()
    of_run = {**(SETTINGS if base is None else LORA_SETTINGS), **settings}
    rows = []
    for kind in kinds:
        model = _built(kind, base, models, reporter)
        with reporter.stage(f"{kind}: verification", 1) as advance:
            verification = verify(model, **({} if base is None else LORA_VERIFIED))
            advance(1)
        folder = Path(out) / (kind if base is None else f"lora-{kind}")
        run = Experiment(XorTask.name, str(model), **of_run).run(folder, reporter=reporter)
        rows.append(TrainedRow(kind, run.breakdown(), verification, folder))
    return rows


def _built(kind: str, base: str | None, models: str | Path | None, reporter: Reporter) -> Path:
    if base is not None:
        return build_lora(kind, base, models, reporter=reporter)
    with reporter.stage(f"{kind}: training", 1) as advance:
        folder = build(kind, models)
        advance(1)
    return folder

"""Where it breaks, before and after training: a run of its own on items that nothing was learned from."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.adapters import Adapters
from experiments.progress import Silent
from experiments.records import write_rows
from experiments.run import Experiment
from experiments.self_prediction.config import TeachConfig
from experiments.self_prediction.labeled import Labeled
from experiments.tasks import Item

_NO_FIELD_OF_OWN_ITEMS = ("task", "fields")


def diagnose(
    config: TeachConfig, model: str, items: Labeled, folder: Path
) -> Mapping[str, str | None]:
    """The stage at which the outcome is lost, of a model by name or folder; the behavior is observed anew.

    Args:
        config: of the comparison.
        model: what is diagnosed.
        items: not learned from; their labels are not read.
        folder: of the run, with a file of the items beside it.
    """
    file = folder.with_suffix(".jsonl")
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_rows(file, (_row(item) for item in items.items))
    try:
        run = Experiment(
            task=items.task.name,
            model=model,
            items=str(file),
            seed=config.seed,
            dtype=config.dtype,
            site=config.site,
            layers=config.layers,
            positions=config.positions,
            paraphrases=config.wordings,
            words="short",
        ).run(folder, reporter=Silent())
        found = run.breakdown()
    except ValueError as error:  # too few items of a class, now that the behavior may have changed
        return {"stage": None, "sentence": str(error)}
    return {"stage": found.stage, "sentence": found.sentence}


def diagnose_trained(
    config: TeachConfig, adapters: Adapters, items: Labeled, folder: Path
) -> Mapping[str, str | None]:
    """The same of a trained model, which is written out for it and deleted again."""
    merged = folder.with_name("merged")
    adapters.write_merged(merged)
    try:
        return diagnose(config, str(merged), items, folder)
    finally:
        shutil.rmtree(merged, ignore_errors=True)


def _row(item: Item) -> dict[str, Any]:
    return {
        name: value for name, value in item.to_json().items() if name not in _NO_FIELD_OF_OWN_ITEMS
    }

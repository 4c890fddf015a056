"""What a sweep computes from a source: the text baseline, the permutation test, and the probe of a cell.

What a cell does not show: that the model uses what the probe reads, or that the label is private to the model. A sweep
is for finding out where to look; `selfprobe run` is for the whole set of controls.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from activations_cache import ActivationsCache, Cell, replace_file
from experiments.asked import asked_of
from experiments.baselines import nested_text_stack
from experiments.behavior import Behavior
from experiments.elicitation import SelfPrediction
from experiments.items import item_from_row
from experiments.records import json_number, read_rows, write_json, write_text
from experiments.run_folder import RunFolder
from experiments.sweeps.folder import read_result
from experiments.sweeps.jobs import Job
from experiments.task_data import TaskData, cell_name
from probes import (
    Candidate,
    Interval,
    auroc_interval,
    max_statistic_test,
    nested_probe,
    regrouped_folds,
    skip_reason,
    stacked_gain,
)

ARRAYS = "scores.safetensors"
CURVE = "curve.csv"


@dataclass(frozen=True)
class Part:
    """The result of a job, as it is written."""

    result: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    curve: pd.DataFrame | None = None

    def write(self, folder: Path) -> None:
        """Write result.json and what else there is into `folder`."""
        if self.arrays:
            replace_file(folder / ARRAYS, save(self.arrays))
        if self.curve is not None:
            write_text(folder / CURVE, self.curve.to_csv(index=False, lineterminator="\n"))
        write_json(folder / "result.json", self.result)


def text_part(job: Job, source: RunFolder) -> Part:
    """What the text alone says: its out-of-fold scores and the training scores of a stack on top of it."""
    with _scored(job, source) as (data, skipped):
        if skipped is not None:
            return Part(skipped)
        stack = nested_text_stack(data.text_families, data.outcome, data.groups, **_folding(job))
        interval = auroc_interval(
            data.outcome,
            stack.scores,
            _folds(job, data),
            data.groups,
            estimand="procedure",
            training_scores=stack.training_scores,
        )
        return Part(
            {"skipped": None, **_interval(interval)},
            {"scores": stack.scores, "training_scores": stack.training_scores},
        )


def null_part(job: Job, source: RunFolder) -> Part:
    """The maximum-statistic test over the grid of a context, by ridge, whatever the probe of the cell is."""
    with _scored(job, source) as (data, skipped):
        if skipped is not None:
            return Part(skipped)
        _, candidates = _grid(job, data)
        test = max_statistic_test(
            candidates,
            data.outcome,
            data.groups,
            _folds(job, data)[0],
            n_permutations=job.config.permutations,
            seed=job.config.seed,
        )
        band = [[json_number(low), json_number(high)] for low, high in test.band()]
        return Part({"skipped": None, "p_max": test.p_value, "band": band})


def cell_part(job: Job, source: RunFolder, text: Path, null: Path) -> Part:
    """The probe of one cell: its selected score, its gain over the text, its p-value and the whole curve."""
    with _scored(job, source) as (data, skipped):
        counts = {"n_items": len(data.items), "n_groups": len(set(data.groups))}
        if skipped is not None:
            return Part(skipped | counts)
        cells, candidates = _grid(job, data)
        nested = nested_probe(
            candidates,
            data.outcome,
            data.groups,
            probe=job.cell.analysis.probe,
            **_folding(job),
        )
        scores = _read_arrays(text)
        gain = stacked_gain(
            data.outcome,
            scores["scores"],
            nested.scores,
            nested.folds,
            data.groups,
            training_scores=(scores["training_scores"], nested.training_scores),
        )
        interval = auroc_interval(
            data.outcome,
            nested.scores,
            nested.folds,
            data.groups,
            estimand="procedure",
            training_scores=nested.training_scores,
        )
        tested, baseline = (read_result(path) for path in (null, text))
        chosen, penalty = nested.modal
        site, layer, position = cells[nested.names.index(chosen)]
        result = {
            "skipped": None,
            **counts,
            "base_rate": json_number(data.outcome.mean()),
            **_interval(interval),
            "estimand": "procedure",
            "approximate": interval.approximate,
            "p_max": tested["p_max"],
            "text": {name: baseline[name] for name in ("auroc", "ci")},
            "gain": {"estimate": json_number(gain.estimate), "ci": _ends(gain)},
            "chosen": {
                "site": site,
                "layer": layer,
                "position": position,
                "penalty": json_number(penalty),
            },
            "n_unconverged": nested.n_unconverged,
        }
        return Part(result, curve=_curve(cells, nested.curve, tested["band"]))


def _read_arrays(folder: Path) -> dict[str, np.ndarray]:
    path = folder / ARRAYS
    try:
        arrays: dict[str, np.ndarray] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(
            f"{path} is damaged ({error}); delete {folder} and run the same command again"
        ) from None
    return arrays


@contextmanager
def _scored(job: Job, source: RunFolder) -> Iterator[tuple[TaskData, dict[str, Any] | None]]:
    """The scored items of a source, and the result of whatever is asked of them if they cannot be probed."""
    task, config = job.cell.task(), job.config
    items = [item_from_row(row) for row in read_rows(source.items)]
    behavior = [Behavior.from_row(row) for row in read_rows(source.behavior)]
    reports = [SelfPrediction(**row) for row in read_rows(source.self_predictions)]
    asked = asked_of(task, config)
    with (
        ActivationsCache.open(source.task_cache) as task_cache,
        ActivationsCache.open(source.report_cache) as report_cache,
    ):
        ids = set(task_cache.ids)
        for path, held in (
            (source.items, {i.id for i in items}),
            (source.behavior, {b.item for b in behavior}),
        ):
            if held != ids:
                raise ValueError(
                    f"{path} is damaged ({len(held)} items, not the {len(ids)} of the activations beside it); "
                    f"delete {source.path} and run the same command again"
                )
        data = TaskData.join(
            task, items, behavior, reports, asked, task_cache, report_cache, config.probed_spec()
        )
        reason = skip_reason(data.outcome, data.groups, config.folds)
        yield data, None if reason is None else {"skipped": reason}


def _grid(job: Job, data: TaskData) -> tuple[list[Cell], list[Candidate]]:
    """The cells of the context and a candidate for each, read only while it is evaluated."""
    if job.cell.analysis.context == "task":
        return list(data.cells), data.task_candidates
    cells = [cell for cell in data.report_cache.cells() if cell[2] == "prompt_last"]
    return cells, [
        Candidate.lazy(
            cell_name(cell), *(partial(data.report_features, cell, e) for e in data.elicitations)
        )
        for cell in cells
    ]


def _folding(job: Job) -> dict[str, Any]:
    config = job.config
    return {"n_folds": config.folds, "n_regroupings": config.regroupings, "seed": config.seed}


def _folds(job: Job, data: TaskData) -> np.ndarray:
    config = job.config
    return regrouped_folds(data.outcome, data.groups, config.folds, config.regroupings, config.seed)


def _interval(interval: Interval) -> dict[str, Any]:
    return {"auroc": json_number(interval.estimate), "ci": _ends(interval)}


def _ends(interval: Interval) -> list[float | None]:
    return [json_number(interval.low), json_number(interval.high)]


def _curve(cells: list[Cell], curve: np.ndarray, band: list[list[float]]) -> pd.DataFrame:
    rows = [
        (*cell, json_number(auroc), low, high)
        for cell, auroc, (low, high) in zip(cells, curve, band, strict=True)
    ]
    columns = ["site", "layer", "position", "auroc", "null_low", "null_high"]
    return pd.DataFrame(rows, columns=columns).astype({"layer": "Int64"})

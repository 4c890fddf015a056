"""The probes that a run, or a probe of own labels, leaves on disk: weights and what they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from activations_cache import Cell
from experiments.predictors import Predictions
from experiments.task_data import TaskData
from probes import RidgeProbe
from probes.storage import StoredProbe


@dataclass(frozen=True)
class SavedProbe:
    """A fitted probe, the cell (site, layer, position) that it reads, and what else is to be known of it."""

    probe: StoredProbe
    cell: Cell
    about: Mapping[str, Any]

    def write(self, stem: Path, about: Mapping[str, Any]) -> None:
        """Write `stem`.safetensors and `stem`.json, which `load_probe` and `about_probe` read back."""
        cell = dict(zip(("site", "layer", "position"), self.cell, strict=True))
        self.probe.save(stem, about={**cell, **self.about, **about})


def refit(data: TaskData, predictions: Predictions) -> dict[str, SavedProbe]:
    """The probes at the cells selected most often, fitted on all items; at the answer slot one an elicitation, whose
    scores are z-scored and averaged."""
    cell, alpha = predictions.probe.chosen
    refitted = {
        "task": SavedProbe(_fit(data, data.task_features(cell), alpha), cell, {"context": "task"})
    }
    cell, alpha = predictions.report.chosen
    for e in data.elicitations:
        name = f"self_prediction-{e.name}".replace("/", "-")
        about = {"context": "self_prediction", "elicitation": e.name}
        probe = _fit(data, data.report_features(cell, e), alpha)
        refitted[name] = SavedProbe(probe, cell, about)
    return refitted


def _fit(data: TaskData, features: np.ndarray, alpha: float) -> RidgeProbe:
    fitted: RidgeProbe = RidgeProbe(alpha=alpha).fit(features, data.outcome)
    return fitted

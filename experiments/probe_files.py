"""Probes on disk: weights as safetensors, everything else as JSON beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from activations_cache import Cell, replace_file
from experiments.predictors import Predictions
from experiments.records import write_json
from experiments.task_data import TaskData
from probes import RidgeProbe


@dataclass(frozen=True)
class SavedProbe:
    """A fitted probe, the cell (site, layer, position) that it reads, and what else is to be known of it."""

    probe: RidgeProbe
    cell: Cell
    about: Mapping[str, Any]

    def write(self, stem: Path, about: Mapping[str, Any]) -> None:
        """Write `stem`.safetensors (`direction` `[d_model]` and `intercept` `[1]`, raw space) and `stem`.json."""
        stem.parent.mkdir(parents=True, exist_ok=True)
        site, layer, position = self.cell
        weights = {
            "direction": np.asarray(self.probe.direction_, dtype=np.float64),
            "intercept": np.atleast_1d(np.asarray(self.probe.intercept_, dtype=np.float64)),
        }
        replace_file(stem.with_name(stem.name + ".safetensors"), save(weights))
        write_json(
            stem.with_name(stem.name + ".json"),
            {
                "probe": "ridge",
                "alpha": self.probe.alpha,
                "site": site,
                "layer": layer,
                "position": position,
                **self.about,
                **about,
            },
        )


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
    return RidgeProbe(alpha=alpha).fit(features, data.outcome)

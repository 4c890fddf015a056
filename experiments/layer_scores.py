"""Every input of the diagnosis, layer by layer: probes of the task prompt and of the answer slot, and the words by
logit lens.

A layer's probe is trained on the folds of the run with a penalty that the run selected, so that no layer is chosen
here; an AUROC that is the best of several layers is no result. What training adds to an interval is bounded, not
measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import joblib
import numpy as np
import torch
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

from experiments.config import RunConfig
from experiments.predictors import averaged_log_odds
from experiments.progress import Advance
from experiments.task_data import TaskData
from hooks import Model, lens_log_odds, spellings
from probes import RidgeProbe, regrouped_folds, within_fold_zscores
from probes.ridge import RidgeSource

Predictor = Literal["task", "slot", "transferred", "words"]
LayerRows = Float[np.ndarray, "layer regrouping item"]


@dataclass(frozen=True)
class LayerScores:
    """Out-of-fold scores by layer: what `diagnose` takes, for every layer.

    `task` is the probe of the task prompt at the position that the run selected most often, `slot` one at the answer
    slot, `transferred` the first moved to the slot, `words` the verbal log-odds that the logit lens reads there; None
    where the model's residual stream cannot be read out.
    """

    site: str
    position: str
    layers: tuple[int | None, ...]
    folds: Int[np.ndarray, "regrouping item"]
    task: LayerRows
    slot: LayerRows
    transferred: LayerRows
    words: LayerRows | None

    def rows(self) -> dict[Predictor, LayerRows]:
        """Those that there are."""
        every: dict[Predictor, LayerRows | None] = {
            "task": self.task,
            "slot": self.slot,
            "transferred": self.transferred,
            "words": self.words,
        }
        return {name: scores for name, scores in every.items() if scores is not None}


def layer_scores(
    data: TaskData,
    result: Mapping[str, Any],
    config: RunConfig,
    model: Model | None,
    advance: Advance,
) -> LayerScores:
    """Score every layer that was captured in both contexts; calls `advance(1)` after each.

    Args:
        data: the scored items of the task.
        result: of the task: the position and the penalties that were selected.
        config: of the run.
        model: whose residual stream the logit lens reads; None leaves the words out.
        advance: as everywhere.
    """
    probe = result["probe"]
    site, position = probe["site"], probe["position"]
    folds = regrouped_folds(
        data.outcome, data.groups, config.folds, config.regroupings, config.seed
    )
    at_slot = {cell[1] for cell in data.report_cache.cells() if cell[0] == site}
    layers = [cell[1] for cell in data.cells if (cell[0], cell[2]) == (site, position)]
    layers = [layer for layer in layers if layer in at_slot]
    alphas = np.array([[one["alpha"] for one in row] for row in probe["selected"]])
    fitting = _Fitting(data, folds, alphas, result["report_probe"]["alpha"], model)

    def score(layer: int | None) -> dict[Predictor, np.ndarray]:
        scored = fitting.at(site, layer, position)
        advance(1)
        return scored

    # Small matrices: a thread a core with a BLAS of one thread each.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(joblib.cpu_count()) as pool:
        scored = list(pool.map(score, layers))
    stacked = {name: np.stack([one[name] for one in scored]) for name in scored[0]}
    return LayerScores(
        site,
        position,
        tuple(layers),
        folds,
        stacked["task"],
        stacked["slot"],
        stacked["transferred"],
        stacked.get("words"),
    )


@dataclass(frozen=True)
class _Fitting:
    data: TaskData
    folds: Int[np.ndarray, "regrouping item"]
    task_alphas: Float[np.ndarray, "regrouping fold"]
    slot_alpha: float
    model: Model | None

    def at(self, site: str, layer: int | None, position: str) -> dict[Predictor, np.ndarray]:
        """`[regrouping, item]` of every predictor at one layer."""
        data = self.data
        prompt = data.task_features((site, layer, position))
        slots = [data.report_features((site, layer, "prompt_last"), e) for e in data.elicitations]
        scored: dict[Predictor, np.ndarray] = {
            "task": np.empty(self.folds.shape),
            "slot": np.empty(self.folds.shape),
            "transferred": np.empty(self.folds.shape),
        }
        sources = [RidgeSource(slot) for slot in slots]
        for r, fold_of in enumerate(self.folds):
            for fold in np.unique(fold_of):
                train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
                y = data.outcome[train]
                of_task = RidgeProbe(alpha=self.task_alphas[r, fold]).fit(prompt[train], y)
                scored["task"][r, test] = prompt[test] @ of_task.direction_
                moved = [slot[test] @ of_task.direction_ for slot in slots]
                targets = 2.0 * y[:, None] - 1
                trained = [
                    source.scores(train, test, targets, [self.slot_alpha])[0, :, 0]
                    for source in sources
                ]
                scored["transferred"][r, test] = _mean_of_standardized(moved)
                scored["slot"][r, test] = _mean_of_standardized(trained)
        if self.model is not None:
            scored["words"] = averaged_log_odds(self._lens(self.model, slots), self.folds)
        return scored

    def _lens(
        self, model: Model, slots: list[Float[np.ndarray, "item d_model"]]
    ) -> Float[np.ndarray, "elicitation item"]:
        read = [
            lens_log_odds(model, torch.from_numpy(slot), spellings(e.yes), spellings(e.no))
            for slot, e in zip(slots, self.data.elicitations, strict=True)
        ]
        return torch.stack(read).double().numpy()


def _mean_of_standardized(scores: list[np.ndarray]) -> Float[np.ndarray, " item"]:
    """Of the elicitations' own slots, within one fold."""
    columns = np.stack(scores, axis=1)
    averaged: np.ndarray = within_fold_zscores(columns, np.zeros(len(columns))).mean(axis=1)
    return averaged

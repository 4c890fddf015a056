"""Labels that are numbers, rates or counts: ridge, R-squared and Spearman correlation, held against the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.baselines import opening_words, projected_tfidf, text_families
from experiments.baselines.rate_stack import RateStack, nested_rate_stack
from experiments.controls.fitted import EMBEDDING_CELL
from experiments.labeled.labels import Labels
from experiments.labeled.measured import (
    Measured,
    ProbeSettings,
    permutation_null,
    score_json,
)
from experiments.labeled.states import States
from experiments.progress import Reporter
from experiments.records import json_number
from experiments.result_json import gap_json
from probes import (
    Candidate,
    RegressionResult,
    max_spearman_test,
    nested_ridge_regression,
    r2_interval,
    spearman_interval,
    stacked_r2_gain,
)


def measure_rate(
    states: States,
    labels: Labels,
    settings: ProbeSettings,
    texts: Sequence[str] | None,
    reporter: Reporter,
) -> Measured:
    """Predict numbers at every cell; `texts` `[item]` are what the text baselines read."""
    n_cells = len(states.cells)
    with reporter.stage("probe", n_cells) as advance:
        nested = nested_ridge_regression(
            states.candidates,
            labels.y,
            labels.groups,
            n_folds=settings.folds,
            n_regroupings=settings.regroupings,
            seed=settings.seed,
            progress=lambda done, total: advance(1),
        )
    null = permutation_null(max_spearman_test, states, labels, nested.folds[0], settings, reporter)
    text = None
    if texts is not None:
        with reporter.stage("text baselines", 1) as advance:
            families = text_families(texts, None, opening_words(texts), labels.y)
            text = nested_rate_stack(families, labels.y, labels.groups, nested.folds)
            advance(1)
    name, penalty = nested.modal
    items = {"fold": nested.folds[0], "probe": nested.predicted[0].round(6)}
    return Measured(
        metric="spearman",
        score=_scores(nested, nested.predicted),
        null=null,
        curve=nested.curve,
        chosen=(nested.names.index(name), penalty),
        folds=nested.folds,
        items=items if text is None else items | {"text": text.predicted[0].round(6)},
        baselines=None if text is None else _baselines(nested, text),
        controls=_controls(states, nested, settings, texts),
        gap={} if text is None else {"beyond_text": _gain(nested, text)},
    )


def _scores(nested: RegressionResult, predicted: np.ndarray) -> dict[str, Any]:
    """Spearman correlation and R-squared of predictions on the probe's folds, each with its interval."""
    aligned = (nested.y, predicted, nested.folds, nested.groups)
    r2 = r2_interval(*aligned, estimand="procedure")
    return score_json("spearman", spearman_interval(*aligned, estimand="procedure")) | {
        "r2": json_number(r2.estimate),
        "r2_ci": [json_number(r2.low), json_number(r2.high)],
    }


def _baselines(nested: RegressionResult, text: RateStack) -> dict[str, dict[str, Any]]:
    predicted = {"text": text.predicted}
    predicted |= {name: one.predicted for name, one in text.families.items()}
    return {name: _scores(nested, one) for name, one in predicted.items()}


def _gain(nested: RegressionResult, text: RateStack) -> dict[str, Any]:
    return gap_json(
        stacked_r2_gain(
            nested.y,
            text.predicted,
            nested.predicted,
            nested.folds,
            nested.groups,
            training_predicted=(text.training_predicted, nested.training_predicted),
        )
    ) | {"of": "r2"}


def _controls(
    states: States, nested: RegressionResult, settings: ProbeSettings, texts: Sequence[str] | None
) -> dict[str, dict[str, Any]]:
    grids: dict[str, tuple[list[Candidate], str]] = {}
    if EMBEDDING_CELL in states.cells:
        candidates = [states.candidate(EMBEDDING_CELL)]
        grids["embedding_layer"] = (candidates, "the tokens by themselves")
    if texts is not None:
        width = states.cache.d_model or 1
        projected = projected_tfidf(texts, width, settings.seed)
        candidates = [Candidate(name, (family,)) for name, family in projected.items()]
        rules_out = f"the words, randomly projected to {width} dimensions"
        grids["projected_tfidf"] = (candidates, rules_out)
    rows = {}
    for name, (candidates, rules_out) in grids.items():
        control = nested_ridge_regression(candidates, nested.y, nested.groups, folds=nested.folds)
        rows[name] = {"kind": "control", "rules_out": rules_out}
        rows[name] |= _scores(nested, control.predicted)
    return rows

"""Labels that are names of classes: multinomial logistic regression, held against the best reader of the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.baselines import length_features, projected_tfidf, sentence_embeddings
from experiments.controls.fitted import EMBEDDING_CELL
from experiments.labeled.labels import Labels
from experiments.labeled.measured import (
    Measured,
    ProbeSettings,
    permutation_null,
    score_json,
)
from experiments.labeled.states import States
from experiments.progress import Reporter, Silent
from experiments.records import json_number
from probes import Candidate, MultinomialResult, max_class_statistic_test, nested_multinomial


def measure_classes(
    states: States,
    labels: Labels,
    settings: ProbeSettings,
    texts: Sequence[str] | None,
    reporter: Reporter,
) -> Measured:
    """Tell classes apart at every cell; `texts` `[item]` are what the text baseline reads.

    The text's row is the best of four readers (length, projected words and characters, sentence embedding), selected
    like a cell on inner folds. There is no stacked gain for classes: whether a class is beyond the text is a question
    for labels of 0 and 1.
    """
    nested = _nested(states.candidates, labels, settings, reporter)
    test = max_class_statistic_test
    null = permutation_null(test, states, labels, nested.folds[0], settings, reporter)
    name, penalty = nested.modal
    predicted = nested.classes[nested.probabilities[0].argmax(axis=1)]
    return Measured(
        metric="class_auroc",
        score=_scores(nested) | {"confusion": np.round(nested.confusion, 3).tolist()},
        null=null,
        curve=nested.curve,
        chosen=(nested.names.index(name), penalty),
        folds=nested.folds,
        items={"fold": nested.folds[0], "predicted": predicted},
        baselines=None if texts is None else _baselines(texts, states, labels, settings, reporter),
        controls=_controls(states, labels, settings),
    )


def _nested(
    candidates: Sequence[Candidate], labels: Labels, settings: ProbeSettings, reporter: Reporter
) -> MultinomialResult:
    # A training set without one fold, and without two, in every regrouping and cell.
    n_sets = settings.regroupings * settings.folds * (settings.folds + 1) // 2
    with reporter.stage("probe", len(candidates) * n_sets) as advance:
        return nested_multinomial(
            candidates,
            labels.y,
            labels.groups,
            n_folds=settings.folds,
            n_regroupings=settings.regroupings,
            seed=settings.seed,
            progress=lambda done, total: advance(1),
        )


def _scores(nested: MultinomialResult) -> dict[str, Any]:
    accuracy = nested.balanced_accuracy
    return score_json("class_auroc", nested.auroc) | {
        "balanced_accuracy": json_number(accuracy.estimate),
        "balanced_accuracy_ci": [json_number(accuracy.low), json_number(accuracy.high)],
    }


def _baselines(
    texts: Sequence[str],
    states: States,
    labels: Labels,
    settings: ProbeSettings,
    reporter: Reporter,
) -> dict[str, dict[str, Any]]:
    projected = projected_tfidf(texts, states.cache.d_model or 1, settings.seed)
    readers = [
        Candidate("length", (length_features(texts),)),
        *(Candidate(f"tfidf_{name}", (family,)) for name, family in projected.items()),
        Candidate("embedding", (sentence_embeddings(texts),)),
    ]
    nested = _nested(readers, labels, settings, reporter)
    return {"text": _scores(nested) | {"reader": nested.modal[0]}}


def _controls(states: States, labels: Labels, settings: ProbeSettings) -> dict[str, dict[str, Any]]:
    if EMBEDDING_CELL not in states.cells:
        return {}
    nested = _nested([states.candidate(EMBEDDING_CELL)], labels, settings, Silent())
    about = {"kind": "control", "rules_out": "the tokens by themselves"}
    return {"embedding_layer": about | _scores(nested)}

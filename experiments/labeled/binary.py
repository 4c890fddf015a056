"""Labels of 0 and 1: AUROC of any linear probe, held against the text on the same folds and pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from experiments.baselines import (
    TextStack,
    nested_text_stack,
    opening_words,
    projected_tfidf,
    text_families,
)
from experiments.controls.fitted import EMBEDDING_CELL
from experiments.controls.result import N_BINS
from experiments.controls.rows import ControlRow, Scoring
from experiments.labeled.labels import Labels
from experiments.labeled.measured import (
    Measured,
    ProbeSettings,
    permutation_null,
    score_json,
)
from experiments.labeled.states import States
from experiments.progress import Reporter
from experiments.result_json import gap_json
from experiments.scored import Scored
from probes import (
    Candidate,
    NestedResult,
    SampleEfficiency,
    max_statistic_test,
    nested_probe,
    nested_ridge,
    platt,
    probe_of,
    sample_efficiency,
    stacked_gain,
    text_bins,
    within_fold_zscores,
)


def measure_binary(
    states: States,
    labels: Labels,
    settings: ProbeSettings,
    texts: Sequence[str] | None,
    reporter: Reporter,
) -> Measured:
    """Probe labels of 0 and 1 at every cell; `texts` `[item]` are what the text baselines read."""
    n_cells = len(states.cells)
    with reporter.stage("probe", n_cells) as advance:
        nested = nested_probe(
            states.candidates,
            labels.y,
            labels.groups,
            probe=settings.probe,
            n_folds=settings.folds,
            n_regroupings=settings.regroupings,
            seed=settings.seed,
            progress=lambda done, total: advance(1),
        )
    test = partial(max_statistic_test, probe=settings.probe)
    null = permutation_null(test, states, labels, nested.folds[0], settings, reporter)
    text = None
    if texts is not None:
        with reporter.stage("text baselines", 1) as advance:
            text = _text(texts, labels, settings)
            advance(1)
    scoring = Scoring(labels.y, labels.groups, nested.folds, Scored.of(nested))
    name, penalty = nested.modal
    return Measured(
        metric="auroc",
        score=score_json("auroc", scoring.probe.interval(labels.y, nested.folds, labels.groups)),
        null=null,
        curve=nested.curve,
        chosen=(nested.names.index(name), penalty),
        folds=nested.folds,
        items=_items(labels, nested, text),
        baselines=None if text is None else _baselines(labels, nested, text),
        controls={
            row.name: row.to_json() for row in _controls(states, labels, settings, texts, scoring)
        }
        | _within_text(scoring, text),
        gap={} if text is None else {"beyond_text": _gain(labels, nested, text)},
        efficiency=_efficiency(states, labels, nested, settings, reporter),
    )


def _text(texts: Sequence[str], labels: Labels, settings: ProbeSettings) -> TextStack:
    families = text_families(texts, None, opening_words(texts), labels.y)
    return nested_text_stack(
        families,
        labels.y,
        labels.groups,
        n_folds=settings.folds,
        n_regroupings=settings.regroupings,
        seed=settings.seed,
    )


def _baselines(labels: Labels, nested: NestedResult, text: TextStack) -> dict[str, dict[str, Any]]:
    rows = {"text": Scored(text.scores, text.training_scores)}
    rows |= {name: Scored.of(one) for name, one in text.families.items()}
    return {
        name: score_json("auroc", row.interval(labels.y, nested.folds, labels.groups))
        for name, row in rows.items()
    }


def _gain(labels: Labels, nested: NestedResult, text: TextStack) -> dict[str, Any]:
    return gap_json(
        stacked_gain(
            labels.y,
            text.scores,
            nested.scores,
            nested.folds,
            labels.groups,
            training_scores=(text.training_scores, nested.training_scores),
        )
    )


def _controls(
    states: States,
    labels: Labels,
    settings: ProbeSettings,
    texts: Sequence[str] | None,
    scoring: Scoring,
) -> Iterator[ControlRow]:
    def row(name: str, candidates: Sequence[Candidate], rules_out: str) -> ControlRow:
        control = nested_ridge(
            candidates,
            labels.y,
            labels.groups,
            n_folds=settings.folds,
            n_regroupings=settings.regroupings,
            seed=settings.seed,
        )
        return scoring.row(name, "control", Scored.of(control), rules_out)

    if EMBEDDING_CELL in states.cells:
        candidate = states.candidate(EMBEDDING_CELL)
        yield row("embedding_layer", [candidate], "the tokens by themselves")
    if texts is not None:
        width = states.cache.d_model or 1
        projected = projected_tfidf(texts, width, settings.seed)
        candidates = [Candidate(name, (family,)) for name, family in projected.items()]
        rules_out = f"the words, randomly projected to {width} dimensions"
        yield row("projected_tfidf", candidates, rules_out)


def _within_text(scoring: Scoring, text: TextStack | None) -> dict[str, Any]:
    """What is left of the probe between items of which the text says about the same."""
    if text is None:
        return {}
    bins = scoring.within(text_bins(text.scores, scoring.folds, N_BINS))
    rules_out = "what the text says: only pairs of about the same text score count"
    row = bins.row("probe_within_text_bins", "control", bins.probe, rules_out, n_bins=N_BINS)
    return {row.name: row.to_json()}


def _items(labels: Labels, nested: NestedResult, text: TextStack | None) -> dict[str, np.ndarray]:
    folds = nested.folds[0]
    scores = {"probe": nested.scores[0]} | ({} if text is None else {"text": text.scores[0]})
    columns = {"fold": folds}
    for name, one in scores.items():
        columns[name] = within_fold_zscores(one, folds).round(6)
        columns[f"{name}_probability"] = platt(labels.y, one, folds).round(6)
    return columns


def _efficiency(
    states: States,
    labels: Labels,
    nested: NestedResult,
    settings: ProbeSettings,
    reporter: Reporter,
) -> SampleEfficiency:
    """At the cell and penalty that were selected without the test fold."""
    with reporter.stage("sample efficiency", nested.selected_candidate.size) as advance:
        return sample_efficiency(
            lambda r, fold: states.read(states.cells[nested.selected_candidate[r, fold]]),
            labels.y,
            labels.groups,
            probe=lambda r, fold: probe_of(settings.probe, float(nested.selected_penalty[r, fold])),
            folds=nested.folds,
            seed=settings.seed,
            progress=lambda done, total: advance(1),
        )

"""Controls that are fitted and selected like the probe, on features that hold less than the model's states do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from activations_cache import ActivationsCache, Cell
from experiments.baselines import projected_tfidf
from experiments.controls.records import ControlRecords
from experiments.controls.rows import ControlRow, Scoring
from experiments.predictors import Fitting, Grid
from experiments.result_json import cell_json
from experiments.scored import Scored
from experiments.task_data import TaskData, cell_name
from probes import Candidate

EMBEDDING_CELL: Cell = ("embed", None, "mean_instruction")
"""At a template position the embedding would be one constant vector."""


def fitted_controls(
    data: TaskData, records: ControlRecords, fitting: Fitting, scoring: Scoring
) -> Iterator[ControlRow]:
    """Yield the embedding layer, the random model and projected TF-IDF, each nested over its own candidates."""
    embedding = fit_cells(data, data.task_cache, [EMBEDDING_CELL], fitting)
    yield scoring.row(
        "embedding_layer",
        "control",
        Scored.of(embedding.nested),
        "the tokens by themselves",
        **cell_json(embedding.chosen),
    )
    random = fit_cells(data, records.random_cache, list(records.random_cache.cells()), fitting)
    yield scoring.row(
        "random_weights",
        "control",
        Scored.of(random.nested),
        "the architecture, without anything learned",
        **cell_json(random.chosen),
    )
    width = data.task_features(EMBEDDING_CELL).shape[1]
    projected = projected_tfidf(data.texts, width, fitting.seed)
    candidates = [Candidate(name, (family,)) for name, family in projected.items()]
    nested = fitting.nested(candidates, data, data.groups)
    yield scoring.row(
        "projected_tfidf",
        "control",
        Scored.of(nested),
        f"the words, randomly projected to {width} dimensions",
    )


def fit_cells(
    data: TaskData, cache: ActivationsCache, cells: Sequence[Cell], fitting: Fitting
) -> Grid:
    """A nested probe over cells of a cache that holds the same items."""

    def read(cell: Cell) -> np.ndarray:
        site, layer, position = cell
        return cache.read(site, layer=layer, position=position, ids=data.ids)

    candidates = [Candidate.lazy(cell_name(cell), partial(read, cell)) for cell in cells]
    return Grid(tuple(cells), fitting.nested(candidates, data, data.groups))

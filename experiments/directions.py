"""Directions of the task probe: held against each other, moved elsewhere, taken away.

- *Cosines* between layers, between contexts and between tasks at each layer, of probes refitted on all items at the
  position that was selected.
- *Transfer* over contexts, strata and tasks, cross-fitted on the folds of the run.
- *Degeneracy*: what the task context still says once the direction is projected out.

Transfer and degeneracy train at the layer and with the penalty that were selected without the fold they are scored on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from activations_cache import Cell
from experiments.config import RunConfig
from experiments.progress import Advance, Reporter
from experiments.records import json_number
from experiments.result_json import interval_json
from experiments.task_data import TaskData
from probes import (
    Domain,
    TransferEntry,
    cosine_matrix,
    degeneracy,
    domain_reason,
    regrouped_folds,
    ridge_directions,
    transfer_matrix,
    whole_group_permutations,
)

CONTEXTS = ("task", "self_prediction", "quote_last")
"""The prompt itself; in the prompt that asks about it, the answer slot and the end of the quote. Transfer goes over the
answer slots of the other contexts as well, where the model was asked in them."""

N_PERMUTATIONS = 99
"""Permuted labels behind the null of a cosine."""

N_STEPS = 4
"""Steps that `ProbeDirections.to_json` reports."""


AtLayers = Mapping[int | None, tuple[np.ndarray, np.ndarray]]
"""Layer -> a direction `[1, d_model]`, and directions `[permutation, d_model]` of permuted labels."""


class ProbeDirections:
    """The probe of one task, and where it can be read."""

    def __init__(self, data: TaskData, probe: Mapping[str, Any], config: RunConfig) -> None:
        """`probe` is the row of the task's results, with what was selected in every regrouping and fold."""
        self.data = data
        self.probe = probe
        self.config = config
        self.read = lru_cache(maxsize=24)(self._read)

    def to_json(self, advance: Advance) -> dict[str, Any]:
        """What `directions.json` says of the task; calls `advance(1)` after each of `N_STEPS`."""
        result: dict[str, Any] = {"site": self.probe["site"], "position": self.probe["position"]}
        result["cosines"] = self._cosines()
        advance(1)
        everything = np.arange(len(self.data.items))
        contexts = (*CONTEXTS, *self.data.contexts)
        result["contexts"] = self._transfer({one: (one, everything) for one in contexts})
        advance(1)
        strata = np.array([item.stratum for item in self.data.items])
        members = {str(one): np.flatnonzero(strata == one) for one in dict.fromkeys(strata)}
        result["strata"] = self._transfer({one: ("task", rows) for one, rows in members.items()})
        advance(1)
        result["degeneracy"] = self._degeneracy()
        advance(1)
        return result

    @cached_property
    def folds(self) -> Int[np.ndarray, "regrouping item"]:
        """The folds of the run: a function of labels, groups and settings alone."""
        config = self.config
        return regrouped_folds(
            self.data.outcome, self.data.groups, config.folds, config.regroupings, config.seed
        )

    @cached_property
    def alphas(self) -> Float[np.ndarray, "regrouping fold"]:
        """The penalties selected without each fold."""
        return np.array([[one["alpha"] for one in row] for row in self.probe["selected"]])

    def cell(self, regrouping: int, fold: int) -> Cell:
        """The cell selected without a fold."""
        chosen = self.probe["selected"][regrouping][fold]
        return chosen["site"], chosen["layer"], chosen["position"]

    def features(
        self,
        context: str,
        selected: Callable[[int, int], Cell],
        rows: np.ndarray | slice,
        regrouping: int,
        fold: int,
    ) -> Float[np.ndarray, "item d_model"]:
        """Some items' activations in a context, at the layer that was selected without a fold."""
        return self.read(context, selected(regrouping, fold))[rows]

    def at_layers(self, context: str, position: str) -> AtLayers:
        """The directions fitted on all items; `position` is that of the task context.

        A layer whose states are the same for all items (a template token's, before any attention) has none.
        """
        labels = np.column_stack([self.data.outcome, self._permuted])
        found = {}
        for site, layer, at in self.data.cells:
            if at == position:
                features = self._read(context, (site, layer, position))
                fitted = ridge_directions(features, labels, self.probe["alpha"])
                if fitted.any(axis=1).all():
                    found[layer] = fitted[:1], fitted[1:]
        return found

    @cached_property
    def _permuted(self) -> Int[np.ndarray, "item permutation"]:
        return whole_group_permutations(
            self.data.outcome, self.data.groups, N_PERMUTATIONS, self.config.seed
        )

    def _read(self, context: str, cell: Cell) -> Float[np.ndarray, "item d_model"]:
        site, layer, _ = cell
        if context == "task":
            return self.data.task_features(cell)
        if context == "quote_last":
            return self.data.report_features((site, layer, context), self.data.elicitations[0])
        # The mean over wordings and both orders of the options: a preference for a position cancels.
        slot = (site, layer, "prompt_last")
        if context in self.data.contexts:
            other = self.data.contexts[context]
            slots = [other.features(slot, one) for one in other.elicitations]
        else:
            slots = [self.data.report_features(slot, one) for one in self.data.elicitations]
        return np.asarray(np.mean(slots, axis=0))

    def _transfer(self, parts: Mapping[str, tuple[str, np.ndarray]]) -> dict[str, Any]:
        """The matrix over parts of the task: a context and the rows of its items each."""
        reasons = {
            name: domain_reason(
                self.data.outcome[rows], self.data.groups[rows], self.folds[:, rows]
            )
            for name, (_, rows) in parts.items()
        }
        kept = {name: part for name, part in parts.items() if reasons[name] is None}
        skipped = {name: reason for name, reason in reasons.items() if reason is not None}
        if len(kept) < 2:
            return matrix_json([], skipped)
        domains = [
            Domain(
                name,
                partial(self.features, context, self.cell, rows),
                self.data.outcome[rows],
                self.data.groups[rows],
            )
            for name, (context, rows) in kept.items()
        ]
        folds = [self.folds[:, rows] for _, rows in kept.values()]
        return matrix_json(
            transfer_matrix(domains, alpha=self.alphas, folds=folds).entries, skipped
        )

    def _cosines(self) -> dict[str, Any]:
        position = self.probe["position"]
        of_context = {context: self.at_layers(context, position) for context in CONTEXTS}
        layers = list(of_context["task"])
        if not layers:
            return {"layers": [], "values": [], "null": [], "isotropic": None, "contexts": []}
        across = cosine_matrix(
            np.concatenate([of_context["task"][layer][0] for layer in layers]),
            permuted=np.stack([of_context["task"][layer][1] for layer in layers]),
        )
        return {
            "layers": layers,
            "values": _rounded(across.values),
            "null": _rounded(across.null),
            "isotropic": json_number(across.isotropic),
            "contexts": [
                {"pair": list(pair), **cosines_by_layer(*(of_context[one] for one in pair))}
                for pair in combinations(CONTEXTS, 2)
            ],
        }

    def _degeneracy(self) -> dict[str, Any]:
        found = degeneracy(
            partial(self.features, "task", self.cell, slice(None)),
            self.data.outcome,
            self.data.groups,
            alpha=self.alphas,
            folds=self.folds,
            seed=self.config.seed,
        )
        return {
            "after": [interval_json(interval, "procedure") for interval in found.aurocs],
            "n_removed": found.n_removed,
        }


def directions_of_run(
    tasks: Sequence[TaskData],
    results: Mapping[str, Mapping[str, Any]],
    config: RunConfig,
    reporter: Reporter,
) -> dict[str, Any]:
    """What `directions.json` holds: every task that was not skipped, and tasks together where there are several.

    `results` are the tasks' results by name.
    """
    probes = {
        data.task.name: ProbeDirections(data, results[data.task.name]["probe"], config)
        for data in tasks
        if not results[data.task.name]["skipped"]
    }
    found = {}
    for name, probe in probes.items():
        with reporter.stage(f"{name}: directions", N_STEPS) as advance:
            found[name] = probe.to_json(advance)
    return {"tasks": found, "across_tasks": tasks_together(probes)}


def tasks_together(tasks: Mapping[str, ProbeDirections]) -> dict[str, Any] | None:
    """Cosines and transfer between the tasks of a run; None for fewer than two.

    A task's probe is read in the others at its own cells, which were selected without their labels. Cosines of two
    tasks are taken at the position that was selected for the first.
    """
    if len(tasks) < 2:
        return None
    rows = []
    for index, source in enumerate(tasks.values()):
        domains = [
            Domain(
                name,
                partial(task.features, "task", source.cell, slice(None)),
                task.data.outcome,
                np.array([f"{name}/{group}" for group in task.data.groups]),
            )
            for name, task in tasks.items()
        ]
        folds = [task.folds for task in tasks.values()]
        rows.append(transfer_matrix(domains, alpha=source.alphas, folds=folds).entries[index])
    cosines = []
    for (name, one), (other_name, other) in combinations(tasks.items(), 2):
        position = one.probe["position"]
        found = cosines_by_layer(*(task.at_layers("task", position) for task in (one, other)))
        cosines.append({"pair": [name, other_name], "position": position, **found})
    return {"cosines": cosines, "transfer": matrix_json(rows, {})}


def cosines_by_layer(one: AtLayers, other: AtLayers) -> dict[str, Any]:
    """Cosine of two directions at each layer that has both, and what 95% of those of permuted labels stay under."""
    layers = [layer for layer in one if layer in other]
    found = [
        cosine_matrix(
            np.concatenate([one[layer][0], other[layer][0]]),
            permuted=np.stack([one[layer][1], other[layer][1]]),
        )
        for layer in layers
    ]
    null = [np.nan if matrix.null is None else matrix.null[0, 1] for matrix in found]
    return {
        "layers": layers,
        "values": _rounded([matrix.values[0, 1] for matrix in found]),
        "null": _rounded(null),
    }


def matrix_json(
    rows: Sequence[Sequence[TransferEntry]], skipped: Mapping[str, str]
) -> dict[str, Any]:
    """A transfer matrix: a row a domain that was trained on, an entry a domain that was tested."""
    return {
        "names": [row[0].trained_on for row in rows],
        "entries": [
            [
                {
                    "tested_on": entry.tested_on,
                    **interval_json(entry.auroc, "procedure"),
                    "balanced_accuracy": json_number(entry.balanced_accuracy),
                    "shifted_accuracy": json_number(entry.shifted_accuracy),
                }
                for entry in row
            ]
            for row in rows
        ],
        "skipped": dict(skipped),
    }


def _rounded(values: Any) -> list[Any]:
    rounded: list[Any] = np.round(values, 4).tolist()
    return rounded

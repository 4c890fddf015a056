"""The scored items of one task, with every record of them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from activations_cache import ActivationsCache, Cell
from experiments.baselines import Family, opening_words, text_families
from experiments.behavior import Behavior
from experiments.elicitation import Questions, SelfPrediction
from experiments.other_contexts import ContextRecords, OtherContext
from experiments.tasks import Elicitation, Item, Task
from experiments.tasks.item import own_texts
from hooks import CaptureSpec
from probes import Candidate


@dataclass(frozen=True)
class WordData:
    """The scored items of one task: what the model did, and what it said."""

    task: Task
    items: tuple[Item, ...]
    behavior: tuple[Behavior, ...]
    all_items: tuple[Item, ...]
    """The unscored ones too, as in the next two."""
    judged: tuple[Behavior, ...]
    """What the model did with every item: what the judges' agreement is about."""
    outcome: Int[np.ndarray, " item"]
    elicitations: tuple[Elicitation, ...]
    log_odds: Float[np.ndarray, "elicitation item"]
    """NaN where the model's probabilities are not known."""
    menu_mass: Float[np.ndarray, "elicitation item"]
    answers: tuple[SelfPrediction, ...]
    """What it said in words to the first elicitation, one an item."""
    reports: tuple[SelfPrediction, ...]
    """Every self-prediction about every item."""

    @classmethod
    def of(
        cls,
        task: Task,
        items: Sequence[Item],
        behavior: Sequence[Behavior],
        reports: Sequence[SelfPrediction],
        questions: Questions,
    ) -> WordData:
        """Put the records of a run side by side; items whose behavior is unscored are left out and counted."""
        return WordData(**_side_by_side(task, items, behavior, reports, questions))

    @cached_property
    def ids(self) -> list[str]:
        """Item ids, in order."""
        return [item.id for item in self.items]

    @cached_property
    def groups(self) -> np.ndarray:
        """The group of every item."""
        return np.array([item.group for item in self.items])

    @property
    def has_log_odds(self) -> bool:
        """Whether the log-odds of all options are known."""
        return not np.isnan(self.log_odds).any()

    @property
    def parsed(self) -> Float[np.ndarray, " item"]:
        """The outcome predicted in words; NaN where the answer could not be parsed."""
        return np.array(
            [np.nan if row.parsed is None else row.parsed for row in self.answers], dtype=float
        )

    def meta(self, key: str) -> np.ndarray | None:
        """A further grouping in the items' `meta`, or None where an item lacks it."""
        values = [item.meta.get(key) for item in self.items]
        return None if None in values else np.array([str(value) for value in values])

    @cached_property
    def texts(self) -> list[str]:
        """The text of every item, without what all of them begin with."""
        return own_texts(self.items)

    @cached_property
    def text_families(self) -> dict[str, Family]:
        """What the text alone gives a predictor, by name; made once, for the texts are read by an encoder."""
        types, kinds = self.meta("type"), self.meta("entity")
        return text_families(
            self.texts,
            strata=[item.stratum for item in self.items],
            types=opening_words(self.texts) if types is None else types.tolist(),
            y=self.outcome,
            kinds=None if kinds is None else kinds.tolist(),
        )


@dataclass(frozen=True)
class TaskData(WordData):
    """The scored items of one task: what the model did, what it said, and where its activations lie."""

    task_cache: ActivationsCache
    report_cache: ActivationsCache
    cells: tuple[Cell, ...]
    """Of the task context, what the probe may choose from; the cache also holds what controls need."""
    contexts: Mapping[str, OtherContext] = field(default_factory=dict)
    """Those of `elicitation.OTHER_CONTEXTS` in which the model was asked."""

    @classmethod
    def join(
        cls,
        task: Task,
        items: Sequence[Item],
        behavior: Sequence[Behavior],
        reports: Sequence[SelfPrediction],
        questions: Questions,
        task_cache: ActivationsCache,
        report_cache: ActivationsCache,
        probed: CaptureSpec,
        contexts: Mapping[str, ContextRecords] | None = None,
    ) -> TaskData:
        """As `WordData.of`, with the caches of both contexts.

        `probed` says which cells of the task context the probe may choose from; `contexts` holds the records of
        the other contexts that are wanted.
        """
        fields = _side_by_side(task, items, behavior, reports, questions)
        ids = [item.id for item in fields["items"]]
        return cls(
            **fields,
            task_cache=task_cache,
            report_cache=report_cache,
            cells=tuple(
                (site, layer, position)
                for site, layer, position in task_cache.cells()
                if site in probed.sites and position in probed.positions
            ),
            contexts={
                name: OtherContext.of(questions.contexts[name], ids, records)
                for name, records in (contexts or {}).items()
            },
        )

    @cached_property
    def task_candidates(self) -> list[Candidate]:
        """The probe's grid in the task context, a candidate a cell, read when it is needed."""
        return [
            Candidate.lazy(cell_name(cell), partial(self.task_features, cell))
            for cell in self.cells
        ]

    def task_features(self, cell: Cell) -> Float[np.ndarray, "item d_model"]:
        """Activations in the task context."""
        site, layer, position = cell
        return self.task_cache.read(site, layer=layer, position=position, ids=self.ids)

    def report_features(
        self, cell: Cell, elicitation: Elicitation
    ) -> Float[np.ndarray, "item d_model"]:
        """Activations in the self-prediction context, at one elicitation's own slot."""
        site, layer, position = cell
        ids = [f"{item}/{elicitation.name}" for item in self.ids]
        return self.report_cache.read(site, layer=layer, position=position, ids=ids)


def _side_by_side(
    task: Task,
    items: Sequence[Item],
    behavior: Sequence[Behavior],
    reports: Sequence[SelfPrediction],
    questions: Questions,
) -> dict[str, Any]:
    """The fields of `WordData`."""
    of_item = {row.item: row for row in behavior}
    scored = [item for item in items if of_item[item.id].outcome is not None]
    elicitations = questions.options
    asked = {(row.item, row.elicitation): row for row in reports}

    def rows(elicitation: Elicitation) -> list[SelfPrediction]:
        return [asked[item.id, elicitation.name] for item in scored]

    def numbers(name: str) -> np.ndarray:
        return np.array([[getattr(row, name) for row in rows(e)] for e in elicitations], float)

    return {
        "task": task,
        "items": tuple(scored),
        "behavior": tuple(of_item[item.id] for item in scored),
        "all_items": tuple(items),
        "judged": tuple(of_item[item.id] for item in items),
        "outcome": np.array([of_item[item.id].outcome for item in scored], dtype=np.int64),
        "elicitations": elicitations,
        "log_odds": numbers("log_odds"),
        "menu_mass": numbers("menu_mass"),
        "answers": tuple(rows(elicitations[0])),
        "reports": tuple(row for row in reports if row.task == task.name),
    }


def cell_name(cell: Cell) -> str:
    """A cell as a candidate's name: site/layer/position."""
    return "/".join(map(str, cell))

"""The two contexts beside task and self-prediction: another assistant's behavior, and the input itself.

Asked at one wording in both option orders, without answers in words. A report about the model that says no more than
these do is a report about assistants, or about the input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from activations_cache import ActivationsCache, Cell
from experiments.asked import asked_of, asked_prompts
from experiments.captures import capture_into
from experiments.config import RunConfig
from experiments.elicitation import Options, SelfPrediction, option_spellings, read_options
from experiments.progress import Reporter
from experiments.records import write_rows
from experiments.run_folder import RunFolder
from experiments.tasks import Elicitation, Item, Task
from hooks import Model


class ContextRecords(NamedTuple):
    """Where the answers to a context's questions lie."""

    rows: Sequence[SelfPrediction]
    cache: ActivationsCache

    def holds(self, questions: Sequence[Elicitation], items: Sequence[Item]) -> bool:
        """Whether the activations are there: runs of older versions kept none of questions about another assistant."""
        return {f"{item.id}/{one.name}" for one in questions for item in items} <= set(
            self.cache.ids
        )


@dataclass(frozen=True)
class OtherContext:
    """One context of the scored items: log-odds, and where the activations at its answer slots lie."""

    elicitations: tuple[Elicitation, ...]
    log_odds: Float[np.ndarray, "elicitation item"]
    """Of the option that predicts outcome 1 (for the input question: that says yes)."""
    menu_mass: Float[np.ndarray, "elicitation item"]
    ids: tuple[str, ...]
    cache: ActivationsCache

    @classmethod
    def of(
        cls, questions: Sequence[Elicitation], ids: Sequence[str], records: ContextRecords
    ) -> OtherContext:
        """Pick the rows of `ids` in their order."""
        said = {(row.item, row.elicitation): row for row in records.rows}

        def numbers(name: str) -> np.ndarray:
            return np.array(
                [[getattr(said[item, one.name], name) for item in ids] for one in questions], float
            )

        return cls(
            tuple(questions), numbers("log_odds"), numbers("menu_mass"), tuple(ids), records.cache
        )

    def features(self, cell: Cell, elicitation: Elicitation) -> Float[np.ndarray, "item d_model"]:
        """Activations at one question's own slot."""
        site, layer, position = cell
        ids = [f"{item}/{elicitation.name}" for item in self.ids]
        return self.cache.read(site, layer=layer, position=position, ids=ids)


def ask_in_other_contexts(
    folder: RunFolder,
    config: RunConfig,
    model: Model,
    items: Mapping[Task, Sequence[Item]],
    reporter: Reporter,
) -> None:
    """Capture every context that the self-predictions do not hold, with the log-odds of its options."""
    rows: list[SelfPrediction] = []
    asked = {task: asked_of(task, config).apart for task in items}
    for context in dict.fromkeys(name for apart in asked.values() for name in apart):
        cache = capture_into(
            folder.context_cache(context),
            model,
            [
                prompt
                for task, own in items.items()
                for question in asked[task][context]
                for prompt in asked_prompts(question, own, config)
            ],
            config.report_spec(),
            reporter=reporter,
            stage=context.replace("_", " "),
            options=option_spellings([one for apart in asked.values() for one in apart[context]]),
        )
        for task, own in items.items():
            ids = [item.id for item in own]
            rows += read_options(own, asked[task][context], partial(_captured, cache, ids))
    write_rows(folder.other_contexts, (row.to_json() for row in rows))


def _captured(cache: ActivationsCache, items: Sequence[str], question: Elicitation) -> Options:
    ids = [f"{item}/{question.name}" for item in items]
    return cache.read_options(question.yes, ids), cache.read_options(question.no, ids)

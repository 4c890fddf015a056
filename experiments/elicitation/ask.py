"""Ask the model to predict its own behavior, and read the answer in two ways.

Every item is asked by every elicitation in a fresh conversation. The log-odds of the options are read at the answer
slot, in the same forward pass that captures the activations there; the first elicitation is also answered in words
and parsed, which is what a person would see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from activations_cache import ActivationsCache
from experiments.progress import Advance
from experiments.tasks import Elicitation, Item
from hooks import Model, generate, spellings

ANSWER_TOKENS = 4
"""Length of a generated answer: an option and what may stand around it."""


@dataclass(frozen=True)
class SelfPrediction:
    """One item asked by one elicitation.

    `log_odds` is the log-odds of the option that predicts outcome 1 against the other, each summed over its
    spellings; `menu_mass` is the probability of both together. `answer` is the generated text (None where it was not
    asked for), `parsed` the outcome it predicts, or None with the `reason` that it is unscored.
    """

    item: str
    task: str
    elicitation: str
    paraphrase: str
    order: str
    log_odds: float
    menu_mass: float
    answer: str | None
    parsed: int | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The row of `self_predictions.jsonl`."""
        return asdict(self)


def option_spellings(elicitations: Sequence[Elicitation]) -> dict[str, tuple[str, ...]]:
    """Every option word of the elicitations with its spellings."""
    words = dict.fromkeys(word for e in elicitations for word in (e.yes, e.no))
    return {word: spellings(word) for word in words}


def generate_answers(
    model: Model, items: Sequence[Item], elicitation: Elicitation, *, advance: Advance
) -> list[str]:
    """The generated answers `[n_items]` to one elicitation, greedy."""
    completions = generate(
        model,
        [elicitation.prompt(item) for item in items],
        max_new_tokens=ANSWER_TOKENS,
        on_batch=lambda batch: advance(len(batch)),
    )
    return [completion.text for completion in completions]


def read_reports(
    items: Sequence[Item],
    elicitations: Sequence[Elicitation],
    cache: ActivationsCache,
    answers: Sequence[str],
) -> list[SelfPrediction]:
    """Join the captured log-odds of all elicitations with the generated `answers` to the first one."""
    rows: dict[str, list[SelfPrediction]] = {item.id: [] for item in items}
    for elicitation in elicitations:
        ids = [f"{item.id}/{elicitation.name}" for item in items]
        yes, no = (cache.read_options(word, ids) for word in (elicitation.yes, elicitation.no))
        mass = np.exp(yes) + np.exp(no)
        first = elicitation is elicitations[0]
        for i, item in enumerate(items):
            answer = answers[i] if first else None
            parsed, reason = (
                elicitation.parse(answer) if answer is not None else (None, "not asked")
            )
            rows[item.id].append(
                SelfPrediction(
                    item=item.id,
                    task=item.task,
                    elicitation=elicitation.name,
                    paraphrase=elicitation.paraphrase,
                    order=elicitation.order,
                    log_odds=float(yes[i] - no[i]),
                    menu_mass=float(mass[i]),
                    answer=answer,
                    parsed=parsed,
                    reason=reason,
                )
            )
    return [row for item in items for row in rows[item.id]]

"""Observe the model on the items and sum up what it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from experiments.tasks.base import Observation, Task
from experiments.tasks.item import Item
from experiments.tasks.runner import Runner


@dataclass(frozen=True)
class Behavior:
    """What the model did with one item, over k completions.

    `outcomes` and `labels` are one a judgment: a completion, or a pair of them. `rate` is the mean of the scored
    outcomes and `outcome` their majority, None with a `reason` where nothing could be scored or half said one thing
    and half the other. `votes` holds each judge's labels, one a judgment. `values` are the truths of the task's value
    questions.
    """

    item: str
    task: str
    completions: tuple[str, ...]
    n_tokens: tuple[int, ...]
    labels: tuple[str, ...]
    outcomes: tuple[int | None, ...]
    votes: dict[str, tuple[str, ...]]
    values: dict[str, Any]
    rate: float | None
    outcome: int | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The row of `behavior.jsonl`."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Behavior:
        """The inverse of `to_json`."""
        lists = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
        votes = {judge: tuple(labels) for judge, labels in row["votes"].items()}
        return cls(**{**row, **lists, "votes": votes})


def label_behavior(run: Runner, task: Task, items: Sequence[Item]) -> list[Behavior]:
    """Let the model act on every item and judge what it did; rows in the order of `items`."""
    observed = task.observe(items, run)
    return [_summarize(item, one) for item, one in zip(items, observed, strict=True)]


def _summarize(item: Item, observed: Observation) -> Behavior:
    judgments = observed.judgments
    scored = [judgment.outcome for judgment in judgments if judgment.outcome is not None]
    rate = sum(scored) / len(scored) if scored else None
    if rate is None:
        outcome, reason = None, next((j.reason for j in judgments if j.reason), "unscored")
    elif rate == 0.5:
        outcome, reason = None, "half of the judgments each way"
    else:
        outcome, reason = int(rate > 0.5), ""
    judges = judgments[0].votes
    return Behavior(
        item=item.id,
        task=item.task,
        completions=tuple(completion.text for completion in observed.completions),
        n_tokens=tuple(completion.n_tokens for completion in observed.completions),
        labels=tuple(judgment.label for judgment in judgments),
        outcomes=tuple(judgment.outcome for judgment in judgments),
        votes={judge: tuple(judgment.votes[judge] for judgment in judgments) for judge in judges},
        values=dict(observed.values),
        rate=rate,
        outcome=outcome,
        reason=reason,
    )

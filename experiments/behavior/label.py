"""Run the model on the items and label what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.progress import Advance
from experiments.records import append_rows, read_whole_rows
from experiments.tasks import Item, Judgment, Task
from hooks import Completion, Model, Prompt, generate

CHUNK = 64
"""Items generated between two writes to the disk: what a kill can cost."""


@dataclass(frozen=True)
class Behavior:
    """What the model did with one item, over k completions.

    `outcomes` and `labels` are per completion; `rate` is the mean of the scored outcomes and `outcome` their
    majority, None with a `reason` where nothing could be scored or half said one thing and half the other.
    `votes` holds each judge's labels, one a completion.
    """

    item: str
    task: str
    completions: tuple[str, ...]
    n_tokens: tuple[int, ...]
    labels: tuple[str, ...]
    outcomes: tuple[int | None, ...]
    votes: dict[str, tuple[str, ...]]
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


def label_behavior(
    model: Model,
    task: Task,
    items: Sequence[Item],
    *,
    samples: int,
    seed: int,
    partial: Path,
    advance: Advance,
    prompt_of: Callable[[Item], Prompt] = Item.prompt,
) -> list[Behavior]:
    """Let the model answer every item and judge the answers; rows in the order of `items`.

    The chunks are fixed from all items before the first token, so that a run picked up from `partial` (rows
    already finished) batches as an unbroken one does and gives the same labels. `prompt_of` says how the model
    reads an item.
    """
    done = {row["item"]: Behavior.from_row(row) for row in read_whole_rows(partial)}
    for chunk in _chunks(items):
        if not all(item.id in done for item in chunk):
            completions = generate(
                model,
                [prompt_of(item) for item in chunk],
                max_new_tokens=task.max_new_tokens,
                n_samples=samples,
                temperature=None if samples == 1 else 1.0,
                seed=seed,
            )
            rows = _judge(task, chunk, completions, samples)
            fresh = [row for row in rows if row.item not in done]
            append_rows(partial, (row.to_json() for row in fresh))
            done |= {row.item: row for row in fresh}
        advance(len(chunk))
    return [done[item.id] for item in items]


def _chunks(items: Iterable[Item]) -> list[list[Item]]:
    # Items of like length side by side waste the least on padding.
    ordered = sorted(items, key=lambda item: (len(item.text), item.id))
    return [ordered[i : i + CHUNK] for i in range(0, len(ordered), CHUNK)]


def _judge(
    task: Task, items: Sequence[Item], completions: Sequence[Completion], samples: int
) -> list[Behavior]:
    of_item: dict[str, list[Completion]] = {item.id: [] for item in items}
    for completion in completions:
        of_item[completion.id].append(completion)
    flat_items = [item for item in items for _ in range(samples)]
    flat_texts = [completion.text for item in items for completion in of_item[item.id]]
    judgments = task.judge(flat_items, flat_texts)
    return [
        _summarize(item, of_item[item.id], judgments[i * samples : (i + 1) * samples])
        for i, item in enumerate(items)
    ]


def _summarize(
    item: Item, completions: Sequence[Completion], judgments: Sequence[Judgment]
) -> Behavior:
    scored = [judgment.outcome for judgment in judgments if judgment.outcome is not None]
    rate = sum(scored) / len(scored) if scored else None
    if rate is None:
        outcome, reason = None, next((j.reason for j in judgments if j.reason), "unscored")
    elif rate == 0.5:
        outcome, reason = None, "half of the completions each way"
    else:
        outcome, reason = int(rate > 0.5), ""
    judges = judgments[0].votes
    return Behavior(
        item=item.id,
        task=item.task,
        completions=tuple(completion.text for completion in completions),
        n_tokens=tuple(completion.n_tokens for completion in completions),
        labels=tuple(judgment.label for judgment in judgments),
        outcomes=tuple(judgment.outcome for judgment in judgments),
        votes={judge: tuple(judgment.votes[judge] for judgment in judgments) for judge in judges},
        rate=rate,
        outcome=outcome,
        reason=reason,
    )

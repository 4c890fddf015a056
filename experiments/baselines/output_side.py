"""The output side: what the model's own distribution over the first answer token gives away.

A probe below it found nothing hidden. Agreement of k samples is not among the numbers: the label is made of the same
samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from experiments.progress import Advance
from experiments.records import append_rows, read_whole_rows
from experiments.tasks import Item, Task
from hooks import Model, NextToken, next_tokens


def read_output_side(
    model: Model, task: Task, items: Sequence[Item], *, partial: Path, advance: Advance
) -> list[NextToken]:
    """The first answer token's distribution of every item, in order; picked up from what `partial` holds."""
    done = {row["id"]: NextToken(**row) for row in read_whole_rows(partial)}
    advance(sum(item.id in done for item in items))
    prompts = [item.prompt() for item in items]
    for batch in next_tokens(model, prompts, task.openings, done=set(done)):
        fresh = [row for row in batch if row.id not in done]
        append_rows(partial, (asdict(row) for row in fresh))
        done |= {row.id: row for row in fresh}
        advance(len(fresh))
    return [done[item.id] for item in items]

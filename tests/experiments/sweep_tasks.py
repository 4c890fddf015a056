"""Two tasks that tiny random models can be run on, and the command line that knows them.

`python -m tests.experiments.sweep_tasks sweep ...`. Nothing is registered where this is imported: a worker learns of a
task from the cells that it is handed.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from experiments.tasks import TASKS, Item, Judgment
from tests.experiments.parity import ParityTask


class SmallParityTask(ParityTask):
    name = "parity"
    elicitations = ParityTask.elicitations[:2]


class OtherParityTask(SmallParityTask):
    """Other items, and another bit of the checksum."""

    name = "other_parity"
    n_groups = 24

    def items(self) -> list[Item]:
        return [
            Item(
                id=item.id,
                task=self.name,
                group=item.group,
                stratum=item.stratum,
                messages=({"role": "user", "content": item.text[::-1]},),
            )
            for item in super().items()
        ]

    def judge(self, items: Sequence[Item], completions: Sequence[str]) -> list[Judgment]:
        bits = [zlib.crc32(text.encode()) >> 3 & 1 for text in completions]
        return [Judgment(bit, ("even", "odd")[bit]) for bit in bits]


if __name__ == "__main__":
    from experiments.cli import main

    TASKS.update({task.name: task for task in (SmallParityTask, OtherParityTask)})
    main()

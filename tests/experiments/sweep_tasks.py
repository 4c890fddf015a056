"""Two tasks that tiny random models can be run on, and the command line that knows them.

`python -m tests.experiments.sweep_tasks sweep ...`. Nothing is registered where this is imported: a worker learns of a
task from the cells that it is handed.
"""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Sequence
from pathlib import Path

from experiments.tasks import TASKS, Item, Judgment
from tests.conftest import make_tiny_model
from tests.experiments.parity import ParityTask

FAILS_WHILE = "SWEEP_TEST_FAILS_WHILE"
"""Names, in the environment, a file: as long as it is there, one judge fails."""
KILLS = "SWEEP_TEST_KILLS"
"""Names, in the environment, a file: a judge that finds it kills its own process, and only once if it says so."""


class SmallParityTask(ParityTask):
    name = "parity"
    elicitations = ParityTask.elicitations[:2]

    def judge(self, items: Sequence[Item], completions: Sequence[str]) -> list[Judgment]:
        if (mine := os.environ.get(KILLS)) and Path(mine).exists():
            if Path(mine).read_text() == "once":
                Path(mine).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().judge(items, completions)


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
        if (lunch := os.environ.get(FAILS_WHILE)) and Path(lunch).exists():
            raise OSError("the judge is out\nfor lunch")
        bits = [zlib.crc32(text.encode()) >> 3 & 1 for text in completions]
        return [Judgment(bit, ("even", "odd")[bit]) for bit in bits]


TESTED = (SmallParityTask, OtherParityTask)


def save_two_models(folder: Path) -> list[str]:
    """Two tiny random models with their tokenizers, as local folders."""
    paths = []
    for family in ("llama", "gpt2"):
        model = make_tiny_model(family)
        model.module.save_pretrained(folder / family)
        model.tokenizer.save_pretrained(folder / family)
        paths.append(str(folder / family))
    return paths


if __name__ == "__main__":
    from experiments.cli import main

    TASKS.update({task.name: task for task in TESTED})
    main()

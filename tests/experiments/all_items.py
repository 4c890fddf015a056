"""The items of any task, those that it makes with the model too: a scripted one answers."""

import re
import zlib
from functools import cache

from experiments.tasks import Item, Task
from tests.experiments.scripted import ScriptedRunner


def items_of(task: Task, n: int = 40) -> list[Item]:
    """All items; of a task that makes them with the model, some."""
    return _items(type(task), n)


@cache
def _items(task: type[Task], n: int) -> list[Item]:
    drafts = task().items()
    if not task.makes_items:
        return drafts
    run = ScriptedRunner(_answer, samples=task.min_samples)
    return task().make_items(drafts, n, run)


def _answer(asked: str, sample: int) -> str:
    """One of the options named last, by the checksum of what is asked; an answer of some words where there are none."""
    named = re.findall(r"Options: (.+?)\.\n", asked)
    options = named[-1].split(", ") if named else ["It is so.", "I do not know.", "There are two."]
    return options[zlib.crc32(f"{asked}/{sample}".encode()) % len(options)]

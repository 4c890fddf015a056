"""Every task that a run can name: the tasks that are listed, and those of organisms, which only test the instrument."""

from __future__ import annotations

from collections import ChainMap

from experiments.organisms.xor_task import XorTask
from experiments.tasks import TASKS, Task

RUNNABLE: ChainMap[str, type[Task]] = ChainMap(TASKS, {XorTask.name: XorTask})
"""By name; a task that is added goes to the listed ones."""

"""The questions about the model's own coming behavior; `TASKS` is the list that the command line shows."""

from experiments.tasks.base import Elicitation, Item, Judgment, Task
from experiments.tasks.difficulty import DifficultyTask
from experiments.tasks.refusal import RefusalTask

TASKS: dict[str, type[Task]] = {task.name: task for task in (RefusalTask, DifficultyTask)}

__all__ = ["TASKS", "DifficultyTask", "Elicitation", "Item", "Judgment", "RefusalTask", "Task"]

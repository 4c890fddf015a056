"""The questions about the model's own coming behavior; `TASKS` is the list that the command line shows."""

from experiments.tasks.association import AssociationTask
from experiments.tasks.base import CompletionTask, Judgment, NoItemsError, Observation, Task
from experiments.tasks.counterfactual import COUNTERFACTUAL_TASKS
from experiments.tasks.difficulty import DifficultyTask
from experiments.tasks.forms import Choice, Form, Number, Ranking, Text
from experiments.tasks.item import Item
from experiments.tasks.option_letter import OptionLetterTask
from experiments.tasks.properties import PROPERTY_TASKS
from experiments.tasks.ranking import RankingTask
from experiments.tasks.recognition import RecognitionTask
from experiments.tasks.refusal import RefusalTask
from experiments.tasks.runner import Decided, Runner
from experiments.tasks.self_written import SelfWrittenTask
from experiments.tasks.wording import Elicitation, Event, Framing, ValueQuestion

_TASKS: tuple[type[Task], ...] = (
    RefusalTask,
    DifficultyTask,
    RankingTask,
    AssociationTask,
    SelfWrittenTask,
    RecognitionTask,
    *PROPERTY_TASKS,
    OptionLetterTask,
    *COUNTERFACTUAL_TASKS,
)
TASKS: dict[str, type[Task]] = {task.name: task for task in _TASKS}


def families() -> dict[str, tuple[str, ...]]:
    """Every family of tasks with the names of its tasks."""
    names = dict.fromkeys(task.family for task in TASKS.values() if task.family)
    return {
        family: tuple(name for name, task in TASKS.items() if task.family == family)
        for family in names
    }


__all__ = [
    "TASKS",
    "AssociationTask",
    "Choice",
    "CompletionTask",
    "Decided",
    "DifficultyTask",
    "Elicitation",
    "Event",
    "Form",
    "Framing",
    "Item",
    "Judgment",
    "NoItemsError",
    "Number",
    "Observation",
    "Ranking",
    "RefusalTask",
    "Runner",
    "Task",
    "Text",
    "ValueQuestion",
    "families",
]

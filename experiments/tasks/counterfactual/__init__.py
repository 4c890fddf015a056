"""How a change of the prompt would change the model's own answer, and what it knows of its own answers.

Follows the counterfactual self-modeling of arXiv 2608.30980, on questions and perturbations of our own.
"""

from experiments.tasks.counterfactual.choosing import PerturbationChoiceTask
from experiments.tasks.counterfactual.editing import EditProposalTask
from experiments.tasks.counterfactual.flips import (
    FlipDecisionShownTask,
    FlipDecisionTask,
    FlipRateTask,
)
from experiments.tasks.counterfactual.outputs import OutputPredictionTask

COUNTERFACTUAL_TASKS = (
    FlipDecisionTask,
    FlipDecisionShownTask,
    OutputPredictionTask,
    FlipRateTask,
    PerturbationChoiceTask,
    EditProposalTask,
)

__all__ = [
    "COUNTERFACTUAL_TASKS",
    "EditProposalTask",
    "FlipDecisionShownTask",
    "FlipDecisionTask",
    "FlipRateTask",
    "OutputPredictionTask",
    "PerturbationChoiceTask",
]

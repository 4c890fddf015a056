"""How a change of the prompt would change the model's own answer, and what it knows of its own answers.

Follows the counterfactual self-modeling of arXiv 2608.30980, on questions and perturbations of our own.
"""

from experiments.tasks.counterfactual.choosing import PerturbationChoiceTask
from experiments.tasks.counterfactual.component_attribution import ComponentAttributionTask
from experiments.tasks.counterfactual.confidence_recall import ConfidenceRecallTask
from experiments.tasks.counterfactual.editing import EditProposalTask
from experiments.tasks.counterfactual.feature_rate import FeatureRateTask
from experiments.tasks.counterfactual.flips import (
    FlipDecisionShownTask,
    FlipDecisionTask,
    FlipRateTask,
)
from experiments.tasks.counterfactual.logit_estimation import LogitEstimationTask
from experiments.tasks.counterfactual.outputs import OutputPredictionTask
from experiments.tasks.counterfactual.self_accuracy import SelfAccuracyTask

COUNTERFACTUAL_TASKS = (
    FlipDecisionTask,
    FlipDecisionShownTask,
    OutputPredictionTask,
    FlipRateTask,
    PerturbationChoiceTask,
    EditProposalTask,
    SelfAccuracyTask,
    ConfidenceRecallTask,
    ComponentAttributionTask,
    FeatureRateTask,
    LogitEstimationTask,
)

__all__ = [
    "COUNTERFACTUAL_TASKS",
    "ComponentAttributionTask",
    "ConfidenceRecallTask",
    "EditProposalTask",
    "FeatureRateTask",
    "FlipDecisionShownTask",
    "FlipDecisionTask",
    "FlipRateTask",
    "LogitEstimationTask",
    "OutputPredictionTask",
    "PerturbationChoiceTask",
    "SelfAccuracyTask",
]

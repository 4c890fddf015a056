"""Can self-prediction be taught: heads and words, on the same labels."""

from experiments.self_prediction.attach import Served
from experiments.self_prediction.comparison import compare
from experiments.self_prediction.config import TeachConfig, make_teach_config
from experiments.self_prediction.frozen import FrozenHead
from experiments.self_prediction.heads import SelfPredictionHead, Shape, Target
from experiments.self_prediction.joint import JointHead
from experiments.self_prediction.place import Place
from experiments.self_prediction.reinforcement import Reinforce
from experiments.self_prediction.training import Objective, Trained, TrainSettings, train
from experiments.self_prediction.verbal import SayIt

__all__ = [
    "FrozenHead",
    "JointHead",
    "Objective",
    "Place",
    "Reinforce",
    "SayIt",
    "SelfPredictionHead",
    "Served",
    "Shape",
    "Target",
    "TeachConfig",
    "TrainSettings",
    "Trained",
    "compare",
    "make_teach_config",
    "train",
]

"""What the model did: completions, and the outcome of each."""

from experiments.behavior.label import Behavior, label_behavior
from experiments.behavior.runner import LocalRunner

__all__ = ["Behavior", "LocalRunner", "label_behavior"]

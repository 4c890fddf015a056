"""What the model did: completions, and the outcome of each."""

from experiments.behavior.label import Behavior, label_behavior

__all__ = ["Behavior", "label_behavior"]

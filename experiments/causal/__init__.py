"""Causes: what moves when a direction of the residual stream is added, taken away or put elsewhere."""

from experiments.causal.settings import CausalSettings
from experiments.causal.study import causal

__all__ = ["CausalSettings", "causal"]

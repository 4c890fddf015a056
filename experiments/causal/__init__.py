"""Causes: what moves when a direction of the residual stream is added, taken away or put elsewhere.

The public names are imported when they are first used: the report of a run needs no more than `names`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.causal.settings import CausalSettings
    from experiments.causal.study import causal

_HOME = {"CausalSettings": "settings", "causal": "study"}

__all__ = ["CausalSettings", "causal"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'experiments.causal' has no attribute {name!r}")
    return getattr(import_module(f"experiments.causal.{_HOME[name]}"), name)

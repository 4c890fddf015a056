"""Tasks, behavior, verbal self-predictions, contrast, breakdown, command line and report.

The public names are imported when they are first used: `selfprobe --help` need not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.breakdown import Breakdown, diagnose
    from experiments.config import RunConfig
    from experiments.finished import Run, load_run
    from experiments.inequalities import Rules
    from experiments.run import Experiment

_HOME = {
    "Breakdown": "breakdown",
    "Experiment": "run",
    "Rules": "inequalities",
    "Run": "finished",
    "RunConfig": "config",
    "diagnose": "breakdown",
    "load_run": "finished",
}

__all__ = ["Breakdown", "Experiment", "Rules", "Run", "RunConfig", "diagnose", "load_run"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'experiments' has no attribute {name!r}")
    return getattr(import_module(f"experiments.{_HOME[name]}"), name)

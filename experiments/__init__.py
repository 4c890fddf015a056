"""Tasks, behavior, verbal self-predictions, contrast, breakdown, command line and report."""

from experiments.breakdown import Breakdown, Rules, diagnose
from experiments.config import RunConfig
from experiments.finished import Run, load_run
from experiments.run import Experiment

__all__ = ["Breakdown", "Experiment", "Rules", "Run", "RunConfig", "diagnose", "load_run"]

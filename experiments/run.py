"""The main job: from a model and a task to a run folder, stage by stage.

A run that was killed picks up at the first stage that is not finished, and ends with the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.config import RunConfig, make_config
from experiments.endpoint.stages import EndpointFolder, EndpointStages
from experiments.finished import Run, load_run
from experiments.progress import Reporter, Silent
from experiments.run_folder import COLLECTED, RunFolder
from experiments.staged import StagedRun
from experiments.stages import Stages
from hooks import Model


class Experiment:
    """One model, one or several tasks, one folder.

    Example:
        >>> run = Experiment(model="smollm2-135m", task="refusal").run("runs/demo")  # doctest: +SKIP
        >>> run.breakdown().stage  # doctest: +SKIP

    Raises:
        ValueError: a setting that is unknown or out of range, named in one line.
    """

    def __init__(
        self,
        task: str | Sequence[str],
        model: str | None = None,
        *,
        preset: str | None = None,
        **settings: Any,
    ) -> None:
        tasks = (task,) if isinstance(task, str) else task
        named = {} if model is None else {"model": model}
        self.config = make_config({"tasks": tasks, **named, **settings}, preset=preset)

    @classmethod
    def from_config(cls, config: RunConfig) -> Experiment:
        """The experiment that `config` describes."""
        experiment = cls.__new__(cls)
        experiment.config = config
        return experiment

    def run(self, out: str | Path, *, reporter: Reporter | None = None) -> Run:
        """Do what is not yet done in the folder `out`, and read the run back.

        Raises:
            ValueError: anything wrong with the folder, the model or the items; nothing is written then.
            RunError: a stage failed; the same call picks up what is finished.
        """
        staged = _staged(self.config, Path(out), reporter or Silent())
        folder = staged.folder
        folder.check(self.config)
        if folder.unfinished(self.config):
            staged.run(folder.stages(self.config))
        return load_run(folder.path)

    def collect(
        self,
        out: str | Path,
        *,
        reporter: Reporter | None = None,
        load: Callable[[str, str], Model] | None = None,
        wait_s: float = 0.0,
    ) -> None:
        """Do the stages of `COLLECTED` alone: behavior, activations, self-predictions, without any analysis.

        Args:
            out: the folder.
            reporter: shows how far it is.
            load: from a model's name and dtype to the model, for a caller that keeps models loaded.
            wait_s: how long to wait for another process that is at work in the folder.

        Raises:
            ValueError, RunError: as `run`; a model behind an endpoint, which has no activations to collect.
        """
        if self.config.endpoint is not None:
            raise ValueError("endpoint: gives no activations to collect; name a model by itself")
        folder = RunFolder(Path(out))
        folder.check(self.config)
        folder.lock.timeout = wait_s
        Stages(self.config, folder, reporter or Silent(), load).run(COLLECTED)


def _staged(config: RunConfig, path: Path, reporter: Reporter) -> StagedRun:
    """The stages of a model in this process, or of one behind an endpoint."""
    if config.endpoint is None:
        return Stages(config, RunFolder(path), reporter)
    return EndpointStages(config, EndpointFolder(path), reporter)

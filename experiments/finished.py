"""A finished run, read back for a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.breakdown import Breakdown
from experiments.causal_record import SCHEMA as CAUSAL_SCHEMA
from experiments.claims import (
    THE_RUN,
    Claim,
    causal_command,
    claims,
    claims_of,
    same_command,
    why_skipped,
)
from experiments.config import RunConfig
from experiments.contrast import Contrast
from experiments.locate import Location
from experiments.records import read_json, read_rows, write_json, write_text
from experiments.report import (
    Beside,
    cosine_figure,
    plot_layers,
    transfer_figure,
    write_direction_figures,
    write_figures,
    write_page,
)
from experiments.run_folder import SCHEMA, RunFolder, versions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRANSFER_COLUMNS = [
    "trained_on",
    "tested_on",
    "auroc",
    "ci_low",
    "ci_high",
    "balanced_accuracy",
    "shifted_accuracy",
]

_MAY_LACK = ("probe", "report_probe", "probe_probability", "verbal_probability", "verbal_answer")
"""Columns of `scores.csv` that are empty where there is no probe or no readable answer; an empty text is a text."""


class Run:
    """The results of a run folder.

    Where a method takes `task`, None means the only task of the run; a run of several wants a name.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @cached_property
    def config(self) -> RunConfig:
        """What was asked."""
        return self.folder.read_config()

    @cached_property
    def results(self) -> dict[str, Any]:
        """`results.json`."""
        return self.folder.read_results()

    @cached_property
    def scores(self) -> pd.DataFrame:
        """A row an item: outcome, text, and every predictor's out-of-fold score in the first regrouping."""
        scores: pd.DataFrame = pd.read_csv(
            self.folder.scores,
            keep_default_na=False,
            na_values={name: [""] for name in _MAY_LACK},
            dtype=dict.fromkeys(("item", "group", "stratum", "text", "completion"), str),
        )
        return scores

    @cached_property
    def cells(self) -> pd.DataFrame:
        """`results.csv`: every predictor, and every cell of the probe grids."""
        cells: pd.DataFrame = pd.read_csv(self.folder.table)
        return cells

    @cached_property
    def behavior(self) -> pd.DataFrame:
        """What the model did, a row an item."""
        return pd.DataFrame(read_rows(self.folder.behavior))

    @cached_property
    def self_predictions(self) -> pd.DataFrame:
        """What it said that it would do, a row an item and elicitation."""
        return pd.DataFrame(read_rows(self.folder.self_predictions))

    def result(self, task: str | None = None) -> dict[str, Any]:
        """The results of one task.

        Raises:
            ValueError: no such task in the run, or several and none named.
        """
        tasks: dict[str, dict[str, Any]] = self.results["tasks"]
        if task is None and len(tasks) == 1:
            return next(iter(tasks.values()))
        if task is None:
            raise ValueError(f"task: this run has several, name one of them: {', '.join(tasks)}")
        if task not in tasks:
            raise ValueError(f"task: {task!r} is not one of this run's: {', '.join(tasks)}")
        return tasks[task]

    def contrast(self, task: str | None = None) -> pd.DataFrame:
        """Every predictor and control on the same items and folds: AUROC with its 95% interval and estimand."""
        name = self.result(task)["task"]
        rows = self.cells[(self.cells["task"] == name) & (self.cells["kind"] != "cell")]
        columns = [
            "predictor",
            "kind",
            "auroc",
            "ci_low",
            "ci_high",
            "estimand",
            "n_items",
            "n_groups",
        ]
        contrast: pd.DataFrame = rows[columns].reset_index(drop=True)
        return contrast

    def breakdown(self, task: str | None = None) -> Breakdown:
        """The stage at which the outcome is lost, with every inequality.

        Raises:
            ValueError: the task was skipped, or has words alone; the reason is given.
        """
        return Breakdown.from_json(self._probed(task)["breakdown"])

    def locate(self, task: str | None = None) -> Location:
        """Where the outcome gets lost, layer by layer, as the run computed it.

        Raises:
            ValueError: as `breakdown`; the run was made before there was any.
        """
        result = self._probed(task)
        return Location.from_json(self._part(self.folder.located)["tasks"][result["task"]])

    def claims(self, task: str | None = None) -> list[Claim]:
        """The words that the run has earned, withheld or not tested (METHODS section 9)."""
        return claims(self, task)

    def _probed(self, task: str | None) -> dict[str, Any]:
        """The results of a task that has a probe."""
        result = self.result(task)
        if result["skipped"]:
            raise ValueError(f"task: {result['task']!r} {why_skipped(result)}")
        if result["breakdown"]["stage"] is None:
            raise ValueError(f"task {result['task']!r}: {result['breakdown']['sentence']}")
        return result

    @cached_property
    def _directions(self) -> dict[str, Any]:
        return self._part(self.folder.directions)

    def _part(self, file: Path) -> dict[str, Any]:
        """A file that runs of older versions lack."""
        self.require(file)
        return read_json(file, f"delete it: {self._adds}")

    @property
    def _adds(self) -> str:
        return f"`{same_command(self.path)}` adds it and keeps what is finished"

    def require(self, *parts: Path) -> None:
        """Refuse work for which a part of the folder is needed that it lacks.

        Raises:
            ValueError: which, and what adds it.
        """
        for part in parts:
            if not part.exists():
                raise ValueError(
                    f"{self.path} holds no {part.relative_to(self.path)}; {self._adds}"
                )

    def directions(self, task: str | None = None) -> dict[str, Any]:
        """The directions of a task's probe: `cosines`, transfer over `contexts` and `strata`, `degeneracy`.

        Raises:
            ValueError: as `breakdown`; the run was made before there were any.
        """
        result = self._probed(task)
        found: dict[str, Any] = self._directions["tasks"][result["task"]]
        return found

    def causal(self, task: str | None = None) -> dict[str, Any]:
        """What interventions did: `steering`, `ablation`, `patching`, `dissociation`, `shift` and `guards` of a task.

        Raises:
            ValueError: as `breakdown`; no interventions were made yet, and how to make them.
        """
        name, command = self._probed(task)["task"], causal_command(self.path)
        if not self.folder.causal.is_file():
            raise ValueError(f"{self.path} holds no causal.json; make it with `{command}`")
        held = self.interventions
        if name not in held:
            raise ValueError(
                f"task: {name!r} is not in causal.json, or of another version; run `{command} --task {name}`"
            )
        return held[name]

    @property
    def interventions(self) -> dict[str, dict[str, Any]]:
        """What interventions did, by task; empty where there were none, or another version made them.

        Raises:
            ValueError: `causal.json` is damaged.
        """
        if not self.folder.causal.is_file():
            return {}
        held = read_json(
            self.folder.causal, f"delete it and run `{causal_command(self.path)}` again"
        )
        return dict(held["tasks"]) if held.get("schema") == CAUSAL_SCHEMA else {}

    def across_tasks(self) -> dict[str, Any]:
        """Cosines and transfer between the tasks of the run.

        Raises:
            ValueError: fewer than two tasks could be scored.
        """
        found: dict[str, Any] | None = self._directions["across_tasks"]
        if found is None:
            raise ValueError(f"{self.path} has fewer than two tasks that could be scored")
        return found

    def cosines(self, task: str | None = None) -> pd.DataFrame:
        """Cosines between the layers' directions in the task context, a row and a column a layer."""
        cosines = self.directions(task)["cosines"]
        layers = pd.Index(cosines["layers"], name="layer")
        return pd.DataFrame(cosines["values"], index=layers, columns=layers)

    def transfer(self, over: str = "contexts", task: str | None = None) -> pd.DataFrame:
        """The transfer matrix as a table, a row an entry.

        Args:
            over: "contexts", "strata" or "tasks" (of the whole run).
            task: as everywhere.
        """
        matrix = self._transfer_matrix(over, task)
        rows = [
            {"trained_on": name, "tested_on": entry["tested_on"]}
            | {"auroc": entry["auroc"], "ci_low": entry["ci"][0], "ci_high": entry["ci"][1]}
            | {key: entry[key] for key in ("balanced_accuracy", "shifted_accuracy")}
            for name, entries in zip(matrix["names"], matrix["entries"], strict=True)
            for entry in entries
        ]
        return pd.DataFrame(rows, columns=TRANSFER_COLUMNS)

    def _transfer_matrix(self, over: str, task: str | None) -> dict[str, Any]:
        if over not in ("contexts", "strata", "tasks"):
            raise ValueError(f"over: {over!r} is not one of contexts, strata, tasks")
        matrix: dict[str, Any] = (
            self.across_tasks()["transfer"] if over == "tasks" else self.directions(task)[over]
        )
        return matrix

    def plot_layers(self, task: str | None = None, ax: Axes | None = None) -> Axes:
        """The layer curve: probe in both contexts, null band, text and words."""
        axes: Axes = plot_layers(self._probed(task), ax=ax)
        return axes

    def plot_cosines(self, task: str | None = None) -> Figure:
        """Cosines between layers, those of permuted labels, and those between contexts by layer."""
        return cosine_figure(self.directions(task)["cosines"])

    def plot_transfer(self, over: str = "contexts", task: str | None = None) -> Figure:
        """The transfer matrix over "contexts", "strata" or "tasks"."""
        matrix = self._transfer_matrix(over, task)
        return transfer_figure(matrix)

    def write_report(self) -> None:
        """Draw the figures and the page anew, those of the directions too where the run has any."""
        folder = self.folder
        figures = write_figures(self.results, self.scores, folder.figures)
        directions = self._directions if folder.directions.is_file() else None
        if directions is not None:
            for name, paths in write_direction_figures(directions, folder.figures).items():
                figures[name] |= paths
        for name, paths in figures.items():
            for svg in sorted(folder.figures.glob(f"causal-{name}-*.svg")):
                paths[f"causal{svg.stem.removeprefix(f'causal-{name}')}"] = svg
        interventions = self.interventions
        beside = Beside(
            directions=directions,
            location=self._added("locate.json"),
            causal={"tasks": interventions} if interventions else None,
            claims={
                name: claims_of(result, interventions.get(name), THE_RUN, self.config)
                for name, result in self.results["tasks"].items()
            },
        )
        write_page(self.results, self.scores, figures, folder.page, beside=beside)

    def _added(self, name: str) -> dict[str, Any] | None:
        """A file that not every run has."""
        path = self.path / name
        return (
            read_json(path, "delete it and run the same command again") if path.is_file() else None
        )


def load_run(path: str | Path) -> Run:
    """Read a finished run back from its folder.

    Raises:
        ValueError: the folder holds no run, or one that is not finished.
    """
    folder = RunFolder(Path(path))
    folder.read_config()
    missing = [file.name for file in folder.outputs["contrast"] if not file.is_file()]
    if missing:
        raise ValueError(
            f"{path} holds a run that is not finished (no {missing[0]}); run the same command again, or "
            f"`{same_command(path)}`: it keeps what is finished"
        )
    folder.read_results()
    return Run(folder)


def write_results(
    folder: RunFolder,
    config: RunConfig,
    contrasts: Sequence[Contrast],
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write results.json (with `about` beside the tasks), results.csv, scores.csv and the probes of all tasks."""
    fingerprint = folder.read_manifest()["model"]
    for contrast in contrasts:
        contrast.save_probes(folder.probes, fingerprint)
    table = pd.concat([contrast.table for contrast in contrasts], ignore_index=True)
    write_text(folder.table, table.to_csv(index=False, lineterminator="\n"))
    scores = pd.concat([contrast.scores for contrast in contrasts], ignore_index=True)
    write_text(folder.scores, scores.to_csv(index=False, lineterminator="\n"))
    write_json(
        folder.results,
        {
            "schema": SCHEMA,
            "model": config.model,
            "seed": config.seed,
            "created_with": versions(),
            "fingerprint": fingerprint,
            "answer_revealed": config.answer_revealed,
            **(about or {}),
            "tasks": {contrast.task: contrast.result for contrast in contrasts},
        },
    )

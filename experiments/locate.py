"""Where the outcome gets lost: layer by layer, and which of probe and words rises first.

The stage is that of the breakdown; the layer and the position are estimates beside it, with a bootstrap interval of
the layer. What this does not show: that the model uses any of it (that takes interventions). The logit lens reads
early layers as if they were the last one: words that it does not show there may be there in another basis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.breakdown import Breakdown
from experiments.claims import THE_RUN, contexts_command, peer_command, same_command
from experiments.config import RunConfig
from experiments.inequalities import DEFAULT_RULES
from experiments.joined import joined_tasks
from experiments.layer_scores import LayerScores, layer_scores
from experiments.progress import Advance, Reporter, Silent
from experiments.records import json_number
from experiments.result_json import gap_json
from experiments.runnable import RUNNABLE
from experiments.scored import Scored
from experiments.task_data import TaskData
from hooks import Model, load_model
from probes import BootstrappedCurve, bootstrapped_curves, departures, percentiles, race

if TYPE_CHECKING:
    from experiments.finished import Run

RESIDUAL = ("resid_pre", "resid_mid", "resid_post")
"""Sites whose states the final norm and the unembedding can read."""


@dataclass(frozen=True)
class Location:
    """Where one task's outcome gets lost.

    Attributes:
        task: its name.
        loss: `stage` of the breakdown, `layer` and `position` where it happens (None where it happens at none),
            `layer_ci` of the layer, and all of it in a `sentence`.
        layers: that were captured in both contexts.
        position: of the task prompt, at which its probe is read.
        by_layer: a row a layer: AUROC of `task`, `slot`, `transferred` and `words`, each with its interval in `ci`.
        race: `probe` and `words` at the slot by layer, and the layers at which they rise by half; None without words.
        transfer: the matrix over contexts.
        skipped: what is missing -> why, and how it is added.
        scores: what all of it was computed from; not read back from a file.
    """

    task: str
    loss: dict[str, Any]
    layers: list[int | None]
    position: str
    by_layer: list[dict[str, Any]]
    race: dict[str, Any] | None
    transfer: dict[str, Any]
    skipped: dict[str, str]
    scores: LayerScores | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Its part of `locate.json`."""
        return {name: getattr(self, name) for name in _WRITTEN}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Location:
        """The inverse of `to_json`."""
        return cls(**{name: row[name] for name in _WRITTEN})

    def to_frame(self) -> pd.DataFrame:
        """A row a layer and predictor: AUROC with its interval."""
        return pd.DataFrame(
            [
                {"layer": row["layer"], "predictor": name, "auroc": row[name]}
                | dict(zip(("ci_low", "ci_high"), ci, strict=True))
                for row in self.by_layer
                for name, ci in row["ci"].items()
            ]
        )


_WRITTEN = ("task", "loss", "layers", "position", "by_layer", "race", "transfer", "skipped")


def locate(
    run: Run,
    task: str | None = None,
    *,
    model: Model | None = None,
    reporter: Reporter | None = None,
) -> Location:
    """Compute where a task's outcome gets lost, from the records in the folder of a finished run.

    `run.locate(task)` reads what the run itself computed; this computes it anew.

    Args:
        run: as `load_run` gives it.
        task: None means the only task of the run.
        model: of the run; loaded by its name where none is given.
        reporter: shows how far it is.

    Raises:
        ValueError: the task was skipped or has words alone, or the run lacks a part; says how it is added.
    """
    moved = run.directions(task)["contexts"]
    result = run.result(task)
    name = result["task"]
    _check_records(run, result)
    model = model or load_model(run.config.model, dtype=run.config.dtype)
    with (
        joined_tasks(run.folder, run.config, [RUNNABLE[name]()]) as joined,
        (reporter or Silent()).stage(f"{name}: locate", n_steps(joined[0])) as advance,
    ):
        return locate_task(joined[0], result, moved, run.config, model, advance)


def _check_records(run: Run, result: Mapping[str, Any]) -> None:
    """Refuse a run without a part that is read here, with what adds it."""
    stages = ["items", "behavior", "task activations", "self-predictions"]
    if run.config.asks_other_contexts:
        stages.append("other contexts")
    run.require(*(part for stage in stages for part in run.folder.outputs[stage]))
    if "selected" not in result["probe"]:
        raise ValueError(
            f"{run.folder.results} is of an older version (it does not say which cells were selected); delete it, and "
            f"`{same_command(run.path)}` makes it anew and keeps what was collected"
        )


def n_steps(data: TaskData) -> int:
    """Steps that `locate_task` reports, at most."""
    return len({layer for _, layer, _ in data.cells}) + 1


def locate_task(
    data: TaskData,
    result: Mapping[str, Any],
    transfer: Mapping[str, Any],
    config: RunConfig,
    model: Model,
    advance: Advance,
) -> Location:
    """The same from joined records.

    Args:
        data: the scored items.
        result: of the task, from `results.json`.
        transfer: over contexts, from `directions.json`.
        config: of the run.
        model: of the run.
        advance: called after every layer, and at the end.
    """
    skipped = _not_asked(data, config)
    no_lens = _why_no_lens(config, model)
    if no_lens is not None:
        skipped["words"] = no_lens
    scores = layer_scores(data, result, config, None if no_lens else model, advance)
    rows = scores.rows()
    found = bootstrapped_curves(
        data.outcome, np.stack(list(rows.values())), scores.folds, data.groups, seed=config.seed
    )
    curves: dict[str, BootstrappedCurve] = dict(zip(rows, found, strict=True))
    raced = None
    if no_lens is None and len(scores.layers) > 1:
        raced = _race(curves, scores.layers)
    elif no_lens is None:
        skipped["race"] = f"only one layer was captured; {_OTHER_FOLDER} with `--layers all`"
    advance(1)
    return Location(
        task=data.task.name,
        loss=_loss(result, curves, scores),
        layers=list(scores.layers),
        position=scores.position,
        by_layer=_by_layer(data, scores),
        race=raced,
        transfer=dict(transfer),
        skipped=skipped,
        scores=scores,
    )


_OTHER_FOLDER = "run into another folder"


def _why_no_lens(config: RunConfig, model: Model) -> str | None:
    if config.site not in RESIDUAL:
        return (
            f"the logit lens reads the residual stream, and {config.site} was captured; {_OTHER_FOLDER} "
            "with `--site resid_post`"
        )
    problem = model.architecture.readout_problem
    return f"this model has no exact readout: {problem}" if problem else None


def _not_asked(data: TaskData, config: RunConfig) -> dict[str, str]:
    skipped = {}
    for name, what in (
        ("other_framing", "nothing was asked about another assistant"),
        ("input_question", "nothing was asked about the input itself"),
    ):
        if name not in data.contexts and config.asks_other_contexts:
            skipped[name] = (
                f"this run is of a version that kept no activations of it; {_OTHER_FOLDER}"
            )
        elif name not in data.contexts:
            skipped[name] = f"{what}; `{contexts_command(THE_RUN)}` adds it"
    if config.peer is None:
        skipped["peer"] = f"no other model read the items; `{peer_command(THE_RUN)}` adds it"
    return skipped


def _by_layer(data: TaskData, scores: LayerScores) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"layer": layer, "ci": {}} for layer in scores.layers]
    for name, by_layer in scores.rows().items():
        for row, of_layer in zip(rows, by_layer, strict=True):
            trained = name != "words"
            scored = Scored(of_layer, None if trained else of_layer, is_trained=trained)
            interval = scored.interval(data.outcome, scores.folds, data.groups)
            row[name] = json_number(interval.estimate)
            row["ci"][name] = gap_json(interval)["ci"]
    return rows


def _race(curves: Mapping[str, BootstrappedCurve], layers: Sequence[int | None]) -> dict[str, Any]:
    probe, words = curves["slot"], curves["words"]
    found = race(probe, words, np.array(layers))
    pair = {"probe": probe, "words": words}
    return {
        **{name: [json_number(one) for one in curve.auroc] for name, curve in pair.items()},
        "baseline": {name: json_number(curve.baseline) for name, curve in pair.items()},
        "half_rise": {
            **{
                name: None if curve.half_rise is None else layers[curve.half_rise]
                for name, curve in pair.items()
            },
            "ci": {
                name: [layers[int(at)] for at in curve.half_rise_interval] if curve.rises else None
                for name, curve in pair.items()
            },
            "difference": {"estimate": found.difference, "ci": [found.low, found.high]},
        },
        "sentence": _race_sentence(pair, found.difference, found.low, found.high),
    }


def _race_sentence(
    pair: Mapping[str, BootstrappedCurve],
    difference: float | None,
    low: float | None,
    high: float | None,
) -> str:
    flat = [name for name, curve in pair.items() if not curve.rises]
    if flat or difference is None or low is None or high is None:
        verb = "rises" if flat == ["probe"] else "rise"
        return (
            f"At the answer slot the {' and the '.join(flat)} never {verb} above what the first layer shows, so there "
            "is no race."
        )
    shown = f"{difference:+.0f} layers [{low:.0f}, {high:.0f}]"
    if low > 0:
        return f"The words rise after the probe ({shown})."
    if high < 0:
        return f"The words rise before the probe ({shown})."
    return f"Probe and words cannot be told apart in where they rise ({shown})."


@dataclass(frozen=True)
class _Fall:
    """Where one curve falls behind another for good."""

    layer: int | None
    interval: list[int | None]

    @classmethod
    def of(
        cls,
        upstream: BootstrappedCurve,
        downstream: BootstrappedCurve,
        layers: Sequence[int | None],
        *,
        keeps: bool,
    ) -> _Fall:
        """`keeps`: whether what the downstream curve has once reached counts at later layers too."""

        def reached(values: np.ndarray) -> np.ndarray:
            return np.maximum.accumulate(values, axis=-1) if keeps else values

        margin = DEFAULT_RULES.delta
        last = [*layers, None]
        at = departures(upstream.auroc, reached(downstream.auroc), margin)
        ends = percentiles(departures(upstream.resampled, reached(downstream.resampled), margin))
        return cls(last[int(at)], [last[int(end)] for end in ends])

    @property
    def words(self) -> str:
        """The layer in a sentence."""
        if self.layer is None:
            return "at no single layer"
        low, high = (f"{end}" if end is not None else "none" for end in self.interval)
        return f"from layer {self.layer} [{low}, {high}] on"


def _loss(
    result: Mapping[str, Any], curves: Mapping[str, BootstrappedCurve], scores: LayerScores
) -> dict[str, Any]:
    breakdown = Breakdown.from_json(result["breakdown"])
    stage, sentence = breakdown.stage, breakdown.sentence
    at_slot = curves[breakdown.best_at_slot or "slot"]
    fall, position = _Fall(None, [None, None]), None
    if stage == "not_transported":
        fall = _Fall.of(curves["task"], at_slot, scores.layers, keeps=True)
        reaches_quote = _reaches_quote(result, curves["task"])
        position = "prompt_last" if reaches_quote else "quote_last"
        where = (
            "between the end of the quoted prompt and the answer slot"
            if reaches_quote
            else "by the end of the quoted prompt already"
        )
        sentence = f"{sentence} It falls behind {where}, {fall.words}."
    elif stage == "not_read_out":
        fall = (
            _Fall.of(at_slot, curves["words"], scores.layers, keeps=False)
            if "words" in curves
            else fall
        )
        position = "prompt_last"
        sentence = f"{sentence} At the answer slot the words fall behind the probe {fall.words}."
    elif stage in ("unparsed", "miscalibrated"):
        position = "answer"
        sentence = f"{sentence} The layers have it to the last one; it is lost in the answer that is written."
    return {
        "stage": stage,
        "layer": fall.layer,
        "layer_ci": fall.interval,
        "position": position,
        "sentence": sentence,
    }


def _reaches_quote(result: Mapping[str, Any], task: BootstrappedCurve) -> bool:
    """Whether some layer at the end of the quote has about what the best layer of the task prompt has."""
    at_quote = [one for one in result["curves"]["self_prediction"]["quote_last"] if one is not None]
    return max(at_quote, default=0.0) >= float(task.auroc.max()) - DEFAULT_RULES.delta

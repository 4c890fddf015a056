"""Predictors side by side: ROC curves, reliability, a forest of every AUROC with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_curve

from experiments.report.controls import FITTED, PEER, READERS
from experiments.report.formatting import auroc
from experiments.report.layers import error_bar
from experiments.report.style import INK, LOOKS, MUTED

SCORES = {
    "probe": "probe",
    "report_probe": "report_probe",
    "verbal": "verbal",
    "text": "baseline_text",
}
"""Predictor -> the column of `scores` that ranks items."""

PROBABILITIES = {name: f"{name}_probability" for name in ("probe", "verbal", "text")}
"""Predictor -> the column of `scores` that holds its cross-fitted probability of outcome 1."""


def result_row(task_result: Mapping[str, Any], predictor: str) -> Mapping[str, Any]:
    """The results of `text` or of a predictor beside it, empty where there are none."""
    source = task_result.get("baselines") or {} if predictor == "text" else task_result
    return source.get(predictor) or {}


def roc_points(
    outcome: NDArray[Any], score: NDArray[Any], fold: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """False and true positive rates, averaged over folds at equal false positive rate.

    A fold weighs with its number of pairs, so that the area is the AUROC over same-fold pairs:
    scores of different folds are never ranked together.

    Args:
        outcome: 0 or 1, `[n]`.
        score: higher predicts 1, `[n]`.
        fold: which fitted model scored the item, `[n]`.
    """
    curves, pairs = [], []
    for one in np.unique(fold):
        y, s = outcome[fold == one], score[fold == one]
        positives = int(y.sum())
        if 0 < positives < len(y):
            curves.append(roc_curve(y, s, drop_intermediate=False)[:2])
            pairs.append(positives * (len(y) - positives))
    if not curves:
        return np.array([]), np.array([])
    steps = np.unique(np.concatenate([false for false, _ in curves]))
    # A curve jumps at a step: it is read just before and just after it.
    around = np.clip(np.column_stack([steps - 1e-9, steps + 1e-9]).ravel(), 0, 1)
    true = np.average([np.interp(around, *curve) for curve in curves], axis=0, weights=pairs)
    return np.r_[0.0, around, 1.0], np.r_[0.0, true, 1.0]


def plot_roc(ax: Any, task_result: Mapping[str, Any], scores: pd.DataFrame) -> None:
    """Draw one ROC curve a predictor that has scores; the legend gives the AUROC of the results."""
    ax.plot([0, 1], [0, 1], color=MUTED, lw=0.8)
    for predictor, column in SCORES.items():
        if column not in scores:
            continue
        known = scores[scores[column].notna() & scores["outcome"].notna()]
        fold = known["fold"] if "fold" in known else pd.Series(0, index=known.index)
        false, true = roc_points(
            known["outcome"].to_numpy(dtype=int),
            known[column].to_numpy(dtype=float),
            fold.to_numpy(),
        )
        if len(false):
            look = LOOKS[predictor]
            label = f"{look.label}  {auroc(result_row(task_result, predictor))}"
            ax.plot(false, true, color=look.color, ls=look.line, label=label)
    ax.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), title="AUROC [95% interval]")


@dataclass(frozen=True)
class Bin:
    """Items of similar predicted probability: mean prediction, share that happened, how many."""

    predicted: float
    observed: float
    count: int


def reliability_bins(
    probability: NDArray[Any], outcome: NDArray[Any], n_bins: int = 10
) -> list[Bin]:
    """Bins of equal mass over the probability `[n]`; items of equal probability stay together."""
    n = len(probability)
    rank = np.searchsorted(np.sort(probability), probability, side="left")
    which = rank * n_bins // max(n, 1)
    return [
        Bin(float(probability[members].mean()), float(outcome[members].mean()), int(members.sum()))
        for members in (which == index for index in np.unique(which))
    ]


def plot_reliability(
    figure: Any, scores: pd.DataFrame, predictors: Sequence[str] = ("probe", "verbal")
) -> None:
    """Draw predicted probability against what happened, a panel a predictor, a histogram below."""
    panels = figure.subplots(
        2, len(predictors), height_ratios=(4, 1), sharex=True, sharey="row", squeeze=False
    )
    for column, predictor in enumerate(predictors):
        above, below = panels[:, column]
        look, name = LOOKS[predictor], PROBABILITIES[predictor]
        known = scores[scores["outcome"].notna()]
        known = known[known[name].notna()] if name in known else known.iloc[:0]
        probability = known[name].to_numpy(dtype=float) if len(known) else np.array([])
        bins = reliability_bins(probability, known["outcome"].to_numpy(dtype=float))
        above.plot([0, 1], [0, 1], color=MUTED, lw=0.8)
        above.set_title(f"{look.label}\n{_bin_sizes(bins)}", fontsize=10.5)
        x, y = [b.predicted for b in bins], [b.observed for b in bins]
        above.plot(x, y, color=look.color, marker=look.marker, ls=look.line, ms=6, mec="white")
        below.hist(probability, bins=np.linspace(0, 1, 21).tolist(), color=look.color)
        below.set_xlabel("predicted probability")
        above.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xticks=[0, 0.5, 1])
    panels[0, 0].set_ylabel("share that happened")
    panels[1, 0].set_ylabel("items")


def plot_predicted_values(ax: Any, values: pd.Series, predicted: pd.Series) -> None:
    """Draw numbers against their out-of-fold predictions, and the mean of each in bins of equal mass."""
    look = LOOKS["probe"]
    x, y = predicted.to_numpy(dtype=float), values.to_numpy(dtype=float)
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    ax.plot([low, high], [low, high], color=MUTED, lw=0.8, label="as predicted")
    ax.plot(x, y, color=look.color, marker="o", ms=3, mew=0, alpha=0.35, ls="", label="an item")
    bins = reliability_bins(x, y)
    style = {"color": INK, "marker": look.marker, "ms": 6, "mec": "white", "lw": 1.4}
    label = f"mean of {_bin_sizes(bins)}"
    ax.plot([b.predicted for b in bins], [b.observed for b in bins], label=label, **style)
    ax.set(xlabel="predicted, held out", ylabel="label")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


def _bin_sizes(bins: list[Bin]) -> str:
    if not bins:
        return "no predictions"
    counts = [b.count for b in bins]
    sizes = str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"
    return f"{len(bins)} bin{'s' * (len(bins) > 1)} of {sizes} items"


@dataclass(frozen=True)
class ForestRow:
    """A line of the forest: a name, a look, and the results' row."""

    name: str
    look: str
    row: Mapping[str, Any]


def forest_rows(task_result: Mapping[str, Any]) -> list[ForestRow]:
    """Every row of the forest: `predictor_rows`, then what is fitted like the probe, and the other model."""
    controls = dict(task_result.get("controls") or {}) | dict(task_result.get("output_side") or {})
    of_peer = dict((task_result.get("peer") or {}).get("rows") or {})
    rows = [
        *(
            ForestRow(name.replace("_", " "), "control", controls.get(name) or {})
            for name in (*FITTED, "output_side")
        ),
        *(ForestRow(READERS[name], "peer", of_peer.get(name) or {}) for name in PEER),
    ]
    shown = [row for row in rows if row.row.get("auroc") is not None]
    return [*predictor_rows(task_result), *shown]


def predictor_rows(task_result: Mapping[str, Any]) -> list[ForestRow]:
    """Probes, words, text, then the single baselines; none without an AUROC."""
    named = [look for look in LOOKS if look not in ("baseline", "control", "peer")]
    rows = [ForestRow(LOOKS[p].label, p, result_row(task_result, p)) for p in named]
    for name, row in (task_result.get("baselines") or {}).items():
        if name != "text":
            label = "sentence embedding" if name == "embedding" else name.replace("_", " ")
            rows.append(ForestRow(label, "baseline", row or {}))
    return [row for row in rows if row.row.get("auroc") is not None]


def mark_row(ax: Any, y: int, entry: ForestRow) -> None:
    """Draw an AUROC with its 95% interval at height `y`."""
    look, value = LOOKS[entry.look], entry.row["auroc"]
    ax.errorbar(
        [value],
        [y],
        xerr=error_bar(value, entry.row.get("ci")),
        color=look.color,
        marker=look.marker,
        ms=7.5,
        mec="white",
        mew=0.5,
        capsize=3,
        lw=1.6,
    )


def plot_forest(ax: Any, task_result: Mapping[str, Any]) -> None:
    """Draw every predictor's AUROC with its 95% interval, chance as a line."""
    rows = forest_rows(task_result)
    ax.axvline(0.5, color=MUTED, lw=1)
    ax.annotate(
        "chance",
        (0.5, 1),
        xycoords=("data", "axes fraction"),
        ha="center",
        va="bottom",
        color=MUTED,
        fontsize=9,
    )
    for y, entry in enumerate(rows):
        mark_row(ax, y, entry)
        ax.annotate(
            auroc(entry.row),
            (1.02, y),
            xycoords=("axes fraction", "data"),
            va="center",
            color=INK,
            fontsize=9.5,
        )
    ax.set_yticks(range(len(rows)), labels=[entry.name for entry in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel("AUROC")
    ax.tick_params(axis="y", length=0)

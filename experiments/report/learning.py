"""The sample-efficiency curve: what more training groups would be worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.report.style import LOOKS, MUTED

NOTE = (
    "cell and penalty chosen on all training folds, never on the\n"
    "test fold: small training sets owe that choice to the rest"
)


def plot_sample_efficiency(ax: Any, result: Mapping[str, Any]) -> None:
    """Draw AUROC over the number of training groups: mean and 95% interval, and every draw of groups.

    Args:
        ax: where to draw.
        result: holds `sample_efficiency` with `groups`, `auroc`, `ci` and `draws`; with `baselines`, the text's level
            (fitted on all training groups) is drawn across.
    """
    found = result["sample_efficiency"]
    groups, look = np.asarray(found["groups"]), LOOKS["probe"]
    ci = np.asarray(found["ci"], dtype=float)
    draws = np.asarray(found["draws"], dtype=float)
    ax.axhline(0.5, color=MUTED, lw=0.8)
    ax.fill_between(groups, ci[:, 0], ci[:, 1], color=look.color, alpha=0.18, lw=0)
    points = np.broadcast_to(groups[:, None], draws.shape)
    style = {"color": look.color, "ms": 3, "mew": 0, "alpha": 0.35, "ls": ""}
    ax.plot(points.ravel(), draws.ravel(), marker="o", label="one draw of groups", **style)
    style = {"color": look.color, "marker": look.marker, "ms": 7, "mec": "white"}
    ax.plot(groups, found["auroc"], label="probe, mean and 95% interval (approximate)", **style)
    text = ((result.get("baselines") or {}).get("text") or {}).get("auroc")
    if text is not None:
        look = LOOKS["text"]
        ax.axhline(text, color=look.color, ls=look.line, label="text alone, all training groups")
    ax.set_xscale("log")
    ax.set_xticks(groups, labels=[str(n) for n in groups])
    ax.minorticks_off()
    ax.set_xlabel(f"training groups (of {result['n_groups']})\n{NOTE}")
    ax.set_ylabel("AUROC on the held-out fold")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28))

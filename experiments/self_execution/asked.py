"""The prompts that refusal results are about: those of XSTest, or, without its file, those that the results name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from experiments.self_execution.refusal_files import RefusalRun
from experiments.self_execution.xstest import XSTest

Cluster = Literal["pair", "type", "prompt"]
"""Prompts whose outcomes are dependent: contrast pairs, whole types (few, hence approximate), or every prompt alone."""

_PLACES = ("prompts.csv", "xstest/prompts.csv")
_FOLDERS_UP = 3


@dataclass(frozen=True)
class Asked:
    """Prompts, and what is known of them."""

    ids: tuple[str, ...]
    groups: NDArray[np.str_]
    """`[prompt]`."""
    safe: Int[np.ndarray, "prompt"] | None
    """1 for a prompt that is labeled safe; None without labels."""


def asked_prompts(runs: Sequence[RefusalRun], prompts: XSTest | None, cluster: Cluster) -> Asked:
    """All prompts of XSTest; without them, those that any run has a row of, each a group of its own.

    Raises:
        ValueError: without XSTest, a cluster other than prompts, or an id that two runs have another prompt of.
    """
    if prompts is not None:
        groups = {"pair": prompts.pairs, "type": prompts.types, "prompt": prompts.ids}[cluster]
        return Asked(prompts.ids, np.array(groups), np.array(prompts.safe, dtype=np.int64))
    if cluster != "prompt":
        raise ValueError(
            f"cluster: {cluster!r} needs XSTest's prompts.csv; give it by --prompts, or 'prompt'"
        )
    texts: dict[str, str] = {}
    for run in runs:
        for id, text in run.texts.items():
            if texts.setdefault(id, text) != text:
                raise ValueError(
                    f"files: prompt {id!r:.20} of {run.model} is another than that of the others; "
                    "give results about the same prompts"
                )
    return Asked(tuple(texts), np.array(list(texts)), None)


def find_prompts(files: Sequence[Path]) -> Path | None:
    """XSTest's prompts near result files: `prompts.csv` beside them, or `xstest/prompts.csv` up to three folders up."""
    folder = files[0].resolve().parent
    folders = [folder, *list(folder.parents)[:_FOLDERS_UP]]
    for place, up in [(_PLACES[0], folder), *((_PLACES[1], one) for one in folders)]:
        if (up / place).is_file():
            return up / place
    return None

"""The table of a sweep: a row a cell, finished, skipped or failed, in the order in which they were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from experiments.records import write_json, write_text
from experiments.sweeps.cells import Cell
from experiments.sweeps.folder import SweepFolder, read_result
from experiments.sweeps.jobs import Job, Kind

SCHEMA = 1
"""Of `results.json`; raised when a field changes its meaning."""

_NEEDED: tuple[Kind, ...] = ("source", "text", "null", "cell")


def write_tables(folder: SweepFolder, cells: Sequence[Cell]) -> pd.DataFrame:
    """Write `results.json` and `results.csv` from what is finished, and return the latter."""
    results = [_result(folder, Job("cell", cell)) for cell in cells]
    table = pd.DataFrame([_row(result) for result in results])
    whole = ("chosen_layer", "n_items", "n_groups", "n_unconverged")
    table = table.astype(dict.fromkeys(whole, "Int64"))
    write_text(folder.table, table.to_csv(index=False, lineterminator="\n"))
    write_json(folder.results, {"schema": SCHEMA, "cells": results})
    return table


def _result(folder: SweepFolder, job: Job) -> dict[str, Any]:
    """A cell with its settings, and its result or the reason for which there is none."""
    shared = {"cell": job.name, "source": job.of("source").name, "settings": job.settings}
    if not folder.is_finished(job):
        reasons = (folder.read_failure(job.of(kind)) for kind in _NEEDED)
        reason = next((reason for reason in reasons if reason is not None), "not done")
        return shared | {"status": "failed", "reason": reason}
    found = read_result(folder.of(job))
    skipped = found.pop("skipped")
    status = "done" if skipped is None else "skipped"
    return shared | {"status": status, "reason": skipped or "", **found}


def _row(result: dict[str, Any]) -> dict[str, Any]:
    chosen, text, gain = (result.get(name) or {} for name in ("chosen", "text", "gain"))
    settings = {
        name: " ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in result["settings"].items()
    }
    row = {
        "cell": result["cell"],
        **settings,
        "status": result["status"],
        "reason": result["reason"],
    }
    for name in ("n_items", "n_groups", "base_rate", "auroc"):
        row[name] = result.get(name)
    row["ci_low"], row["ci_high"] = result.get("ci", (None, None))
    for name in ("estimand", "approximate", "p_max"):
        row[name] = result.get(name)
    row["text_auroc"] = text.get("auroc")
    row["text_ci_low"], row["text_ci_high"] = text.get("ci", (None, None))
    row["gain"] = gain.get("estimate")
    row["gain_ci_low"], row["gain_ci_high"] = gain.get("ci", (None, None))
    row["chosen_site"] = chosen.get("site")
    row["chosen_layer"] = chosen.get("layer")
    row["chosen_position"] = chosen.get("position")
    row["chosen_penalty"] = chosen.get("penalty")
    row["n_unconverged"] = result.get("n_unconverged")
    return row

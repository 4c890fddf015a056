"""The results of a comparison as JSON, CSV and Markdown: a row a task, method, labels, size and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.records import json_number
from experiments.report.formatting import MISSING, estimate, number
from experiments.run_folder import versions
from experiments.self_prediction.cells import Cell, plan_cells
from experiments.self_prediction.config import CONTROLS, IN_WORDS, METHODS, TeachConfig
from experiments.self_prediction.folder import ComparisonFolder
from experiments.self_prediction.labeled import Labeled
from experiments.self_prediction.material import TESTS, Material, MaterialFolder, held_out_of
from experiments.self_prediction.predicted import Predicted
from experiments.self_prediction.scores import MethodScores, gain_json, score_seeds

SCHEMA = 1
"""Of `results.json`; raised when a field changes its meaning."""
NOT_MEASURED = "not measured"


def results_of(
    config: TeachConfig, folder: ComparisonFolder, material: Mapping[str, Material]
) -> dict[str, Any]:
    """What `results.json` holds, from the result files of all cells."""
    kinds: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in plan_cells(config):
        kinds.setdefault((cell.task, cell.method, cell.labels, cell.size), []).append(cell)
    order = {name: i for i, name in enumerate(METHODS)}
    rows: list[dict[str, Any]] = []
    skipped: list[dict[str, Any]] = []
    devices: set[str] = set()
    untrained: dict[tuple[str, str], MethodScores] = {}
    for kind in sorted(
        kinds,
        key=lambda k: (
            config.tasks.index(k[0]),
            order[k[1]],
            k[3],
            ("none", "true", *CONTROLS).index(k[2]),
        ),
    ):
        task, method, labels, size = kind
        about = {"task": task, "method": method, "labels": labels, "size": size}
        read = [folder.read(cell) for cell in kinds[kind]]
        found = [result for result in read if "skipped" not in result]
        if not found:
            skipped.append(about | {"reason": read[0]["skipped"]})
            continue
        about |= _about(found)
        devices |= {one["device"] for one in found}
        for test, items in _items_of(material, task).items():
            if test not in found[0]["predicted"]:
                continue
            predicted = [Predicted.from_json(one["predicted"][test]) for one in found]
            scores = score_seeds(
                items.outcome, items.groups, predicted, is_trained=labels != "none"
            )
            if method == "words":
                untrained[task, test] = scores
            before = untrained.get((task, test))
            is_gain = before is not None and method in IN_WORDS and labels != "none"
            rows.append(
                about
                | {"test": test, "seconds_an_answer": _mean([one.seconds for one in predicted])}
                | scores.to_json()
                | {"gain": gain_json(before, scores) if is_gain and before else None}
            )
    manifest = MaterialFolder(folder.path).run.read_manifest()
    return {
        "schema": SCHEMA,
        "model": config.model,
        "seed": config.seed,
        "config": config.model_dump(mode="json"),
        "created_with": versions(),
        "fingerprint": manifest["model"],
        "devices": sorted(devices),
        "rows": rows,
        "skipped": skipped,
    }


def _items_of(material: Mapping[str, Material], task: str) -> dict[str, Labeled]:
    """Test -> its items with what the model did."""
    found = {test: items for test, (_, items) in held_out_of(material, task).items()}
    found["other_wording"] = found["held_out_groups"]
    return {test: found[test] for test in TESTS if test in found}


def _about(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is said of a kind of cell beside its scores, over seeds."""
    trained = [one["trained"] for one in found if one["trained"]]
    ability = [one["ability"] for one in found if one["ability"]]
    peaks = [one["peak_memory"] for one in trained if one["peak_memory"] is not None]
    return {
        "n_train": found[0]["n_train"],
        "n_validation": found[0]["n_validation"],
        "places": ["/".join(map(str, one["place"])) for one in found if one["place"]],
        "seconds": _mean([one["seconds"] for one in found]),
        "seconds_a_step": _mean([one["seconds_per_step"] for one in trained]),
        "steps": _mean([one["steps"] for one in trained]),
        "peak_memory": max(peaks, default=None),
        "perplexity": _mean([one["perplexity"] for one in ability]),
        "choices": _mean([one["choices"] for one in ability]),
        "diagnosis": next((one["diagnosis"] for one in found if one["diagnosis"]), None),
    }


def _mean(values: Sequence[float]) -> float | None:
    return json_number(np.mean(values)) if values else None


def table_rows(results: Mapping[str, Any]) -> str:
    """`results.csv`: the rows without their lists, an interval in two columns."""
    flat = []
    for row in results["rows"]:
        one = {}
        for name, value in row.items():
            if name.endswith("_ci"):
                one[f"{name}_low"], one[f"{name}_high"] = value
            elif name == "gain":
                for part in ("total", "format", "quality"):
                    one[f"gain_{part}"] = None if value is None else value[part]
            elif name == "diagnosis":
                one["diagnosis"] = None if value is None else value["stage"]
            else:
                one[name] = " ".join(map(str, value)) if isinstance(value, list) else value
        flat.append(one)
    text: str = pd.DataFrame(flat).to_csv(index=False, lineterminator="\n")
    return text


def table_markdown(results: Mapping[str, Any]) -> str:
    """`table.md`: for every task the scores on held-out groups, those elsewhere, and what it cost."""
    parts = [f"# Can it be taught? {results['model']}\n"]
    for task in results["config"]["tasks"]:
        rows = [row for row in results["rows"] if row["task"] == task]
        parts += [f"## {task}\n", _counts(rows), _scores_table(rows), _elsewhere_table(rows)]
        parts += [_cost_table(rows, results), *_left_out(task, results)]
    return "\n".join(parts)


def method_label(row: Mapping[str, Any]) -> str:
    """A row's method, with its labels where they are not the true ones and its size where it is not 1."""
    label = METHODS[row["method"]]
    if row["labels"] in CONTROLS:
        label += f", {CONTROLS[row['labels']]}"
    return label if row["size"] == 1 else f"{label}, x{row['size']}"


def _counts(rows: Sequence[Mapping[str, Any]]) -> str:
    own = {row["test"]: row for row in rows}
    said = [
        f"{TESTS[test]} {row['n_items']} items in {row['n_groups']} groups"
        for test, row in own.items()
    ]
    sizes = sorted({(row["size"], row["n_train"]) for row in rows if row["n_train"]})
    learned = ", ".join(f"x{size}: {n} items" for size, n in sizes)
    return f"Learned from {learned}. Tested on {'; '.join(said)}.\n"


def _scores_table(rows: Sequence[Mapping[str, Any]]) -> str:
    header = (
        "method", "seeds", "strict", "lenient", "parsed", "skill", "AUROC", "ECE", "Brier", "gain",
        "of it format", "of it quality",
    )  # fmt: skip
    lines = []
    for row in rows:
        if row["test"] != "held_out_groups":
            continue
        gain = row["gain"] or {}
        lines.append(
            (
                method_label(row),
                str(row["n_seeds"]),
                estimate(row["strict"], row["strict_ci"]),
                number(row["lenient"]),
                number(row["parse_rate"]),
                estimate(row["skill"], row["skill_ci"]),
                estimate(row["auroc"], row["auroc_ci"]),
                number(row["calibration_error"]),
                number(row["brier"]),
                *(number(gain.get(part), signed=True) for part in ("total", "format", "quality")),
            )
        )
    return "Held-out groups:\n\n" + _markdown(header, lines)


def _elsewhere_table(rows: Sequence[Mapping[str, Any]]) -> str:
    tests = [
        test
        for test in TESTS
        if test != "held_out_groups" and any(row["test"] == test for row in rows)
    ]
    by_label: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_label.setdefault(method_label(row), {})[row["test"]] = row
    lines = []
    for label, own in by_label.items():
        cells = []
        for test in tests:
            found = own.get(test)
            cells += (
                [MISSING] * 2
                if found is None
                else [
                    estimate(found["auroc"], found["auroc_ci"]),
                    number(found["skill"], signed=True),
                ]
            )
        lines.append((label, *cells))
    header = [part for test in tests for part in (f"{TESTS[test]}: AUROC", "skill")]
    return "Elsewhere:\n\n" + _markdown(("method", *header), lines)


def _cost_table(rows: Sequence[Mapping[str, Any]], results: Mapping[str, Any]) -> str:
    header = (
        "method", "training, s", "steps", "s a step", "peak memory", "added ms a prediction",
        "perplexity", "multiple choice", "diagnosis",
    )  # fmt: skip
    lines: list[tuple[str, ...]] = [
        (
            method_label(row),
            number(row["seconds"], decimals=1),
            number(row["steps"], decimals=0),
            number(row["seconds_a_step"], decimals=3),
            _memory(row["peak_memory"]),
            number(1000 * row["seconds_an_answer"], decimals=2),
            number(row["perplexity"], decimals=2),
            number(row["choices"]),
            (row["diagnosis"] or {}).get("stage") or MISSING,
        )
        for row in rows
        if row["test"] == "held_out_groups"
    ]
    on_gpu = any(device.startswith("cuda") for device in results["devices"])
    if not on_gpu:
        lines.append(("on a GPU, bfloat16", *[NOT_MEASURED] * 4, *[MISSING] * 4))
    where = f"{', '.join(results['devices'])}, training in {results['config']['precision']}"
    return f"Cost and general ability ({where}):\n\n" + _markdown(header, lines)


def _left_out(task: str, results: Mapping[str, Any]) -> list[str]:
    return [
        f"Not run: {method_label(one)}: {one['reason']}.\n"
        for one in results["skipped"]
        if one["task"] == task
    ]


def _markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _memory(value: float | None) -> str:
    return MISSING if value is None else f"{value / 2**20:.0f} MiB"

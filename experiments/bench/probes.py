"""`selfprobe bench probes`: a sweep of logistic probes against a loop over scikit-learn's, fit by fit.

The sweep: every layer at two positions, 3 targets, 5 folds, C from 1e-4 to 1, and 50 whole-group permutations of every
target, on activations of the project's own refusal and difficulty items. It is timed whole: reading, standardizing,
scoring and intervals included.

The rival: `LogisticRegression` at its default tolerance in a joblib pool of one process a core, one BLAS thread each,
on float32 rows that are standardized already, for a random sample of the same fits, drawn evenly over C. Only its `fit`
and `decision_function` are timed, with the pool's own overhead. The two take turns, a cell a core at a time.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from jaxtyping import Float
from joblib import Parallel, parallel_config

from activations_cache import ActivationsCache
from experiments.bench.measured_sweep import C_GRID, N_FOLDS, Reader, Targets
from experiments.bench.probes_result import ProbesBench
from experiments.bench.sklearn_fits import (
    Sample,
    converged,
    default_tolerance,
    write_standardized,
)
from experiments.bench.sweep_memory import peaks_by_layers
from experiments.bench.timing import median_ratio
from experiments.captures import capture_into
from experiments.items import first_groups
from experiments.progress import Reporter, Silent
from experiments.tasks import TASKS
from hooks import CaptureSpec, Model
from probes import SweepResult, same_fold_auroc

N_ITEMS = 800
N_PERMUTATIONS = 50
POSITIONS = ("instruction_last", "prompt_last")
GPU_CELLS = 4


def bench_probes(
    model: Model,
    *,
    n_items: int = N_ITEMS,
    n_permutations: int = N_PERMUTATIONS,
    reporter: Reporter | None = None,
) -> ProbesBench:
    """Measure on activations of `model`, captured into a temporary folder.

    Raises:
        ValueError: more items than there are, or too few for the folds.
    """
    items = [
        item
        for name in ("refusal", "difficulty")
        for item in first_groups(TASKS[name]().items(), n_items // 2)
    ]
    if n_items < 100 or len(items) < n_items - 4:
        raise ValueError(f"n: {n_items} is not between 100 and the number of items, 850")
    reporter = reporter or Silent()
    with tempfile.TemporaryDirectory(prefix="bench-probes-") as name:
        folder = Path(name)
        cache = capture_into(
            folder / "cache",
            model,
            [item.prompt() for item in items],
            CaptureSpec(positions=POSITIONS),
            reporter=reporter,
        )
        of_id = {item.id: item for item in items}
        ordered = [of_id[id] for id in cache.ids]
        groups, texts = [one.group for one in ordered], [one.text for one in ordered]
        targets = Targets.of(groups, texts, n_permutations)
        return _measure(cache, targets, folder, (groups, texts), reporter)


def _measure(
    cache: ActivationsCache,
    targets: Targets,
    folder: Path,
    described: tuple[list[str], list[str]],
    reporter: Reporter,
) -> ProbesBench:
    cores = os.cpu_count() or 1
    cells = cache.cells()
    rounds = [cells[start : start + cores] for start in range(0, len(cells), cores)]
    rng = np.random.default_rng(0)
    columns = targets.columns
    seconds: list[dict[str, float]] = []
    of_c: dict[float, list[float]] = {C: [] for C in C_GRID}
    differences: dict[str, list[float]] = {"default": [], "converged": []}
    n_not_converged = 0
    with (
        parallel_config(backend="loky", inner_max_num_threads=1),
        Parallel(n_jobs=cores, batch_size=1, pre_dispatch="all") as pool,
        reporter.stage("bench probes", len(rounds) + 2) as advance,
    ):
        for number, chosen in enumerate([rounds[0], *rounds]):
            reader = Reader(cache, chosen)
            start = time.perf_counter()
            result = targets.sweep(reader)
            ours = time.perf_counter() - start

            sample = Sample.draw(rng, len(chosen), columns.shape[:2], C_GRID)
            write_standardized(reader.arrays(), targets.folds, folder)
            start = time.perf_counter()
            rival = sample.fit(pool, folder, columns, targets.folds, default_tolerance)
            theirs = time.perf_counter() - start
            if number == 0:  # the first one warms up
                continue
            exact = sample.fit(pool, folder, columns, targets.folds, converged)
            seconds.append(
                {
                    "sweep": ours,
                    "sweep fits": targets.fits_a_cell * len(chosen),
                    "sklearn": theirs,
                    "sklearn fits": len(sample) * N_FOLDS,
                    "sweep a fit": ours / targets.fits_a_cell / len(chosen),
                    "sklearn a fit": theirs / len(sample) / N_FOLDS,
                }
            )
            for unit, fitted in zip(sample.units, rival, strict=True):
                of_c[unit.C] += fitted.seconds
            found = aurocs_in_sweep(sample, result, len(targets.by_name))
            for kind, fits in (("default", rival), ("converged", exact)):
                expected = [
                    same_fold_auroc(columns[one.target, one.column], fit.scores, targets.folds)
                    for one, fit in zip(sample.units, fits, strict=True)
                ]
                differences[kind].append(float(np.abs(found - np.array(expected)).max()))
            n_not_converged += sum(not row.converged for row in result.rows)
            advance(1)
        gpu_seconds = _gpu_seconds_a_fit(cache, targets)
        advance(1)
        peaks = peaks_by_layers(cache, targets, folder, described)
        advance(1)
    milliseconds = {
        name: 1e3 * sum(one[name] for one in seconds) / sum(one[f"{name} fits"] for one in seconds)
        for name in ("sweep", "sklearn")
    }
    if gpu_seconds is not None:
        milliseconds["gpu"] = 1e3 * gpu_seconds
    return ProbesBench(
        speedup_over={"sklearn": median_ratio(seconds, "sklearn a fit", "sweep a fit")},
        milliseconds_a_fit=milliseconds,
        sklearn_milliseconds_by_c={f"{C:g}": 1e3 * median(times) for C, times in of_c.items()},
        max_auroc_difference=max(differences["converged"]),
        max_auroc_difference_at_default_tol=max(differences["default"]),
        n_not_converged=n_not_converged,
        n_rows=len(cells) * len(targets.by_name) * len(C_GRID),
        peak_memory_bytes=peaks[-1],
        peak_memory_4x_layers=peaks[-1] / peaks[0],
        n_items=len(targets.groups),
        n_features=cache.d_model or 0,
        n_cells=len(cells),
        n_fits=targets.fits_a_cell * len(cells),
        n_sampled=int(sum(one["sklearn fits"] for one in seconds)),
        cores=cores,
        gpu=torch.cuda.get_device_name() if gpu_seconds is not None else None,
        seconds=seconds,
    )


def aurocs_in_sweep(
    sample: Sample, result: SweepResult, n_targets: int
) -> Float[np.ndarray, "unit"]:
    """What the sweep of the same cells has for every unit."""
    aurocs = []
    for one in sample.units:
        row = (one.cell * n_targets + one.target) * len(C_GRID) + C_GRID.index(one.C)
        observed = result.rows[row].auroc
        aurocs.append(result.null[row, one.column - 1] if one.column else observed)
    return np.array(aurocs)


def _gpu_seconds_a_fit(cache: ActivationsCache, targets: Targets) -> float | None:
    if not torch.cuda.is_available():
        return None
    reader = Reader(cache, cache.cells()[:GPU_CELLS])
    for _ in range(2):  # the first one warms up
        start = time.perf_counter()
        targets.sweep(reader, "cuda")
        torch.cuda.synchronize()
        took = time.perf_counter() - start
    return took / targets.fits_a_cell / len(reader.cells())

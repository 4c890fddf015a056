"""`selfprobe bench probes`: a sweep of logistic probes against a loop over scikit-learn's, fit by fit.

The sweep: every layer at two positions, 3 targets, 5 folds, C from 1e-4 to 1, and 50 whole-group permutations of every
target, on activations of the project's own refusal and difficulty items. It is timed whole: reading, standardizing,
scoring and intervals included.

The rival: `LogisticRegression` at its default tolerance in a joblib pool of one process a core, one BLAS thread each,
on float32 rows that are standardized already, for a random sample of the same fits, drawn evenly over C. Only its `fit`
and `decision_function` are timed, with the pool's own overhead. The two take turns, a cell a core at a time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from joblib import Parallel, parallel_config

from activations_cache import ActivationsCache, Cell
from experiments.bench.process_memory import peak_of_process, peak_of_this_process
from experiments.bench.sklearn_fits import (
    Sample,
    converged,
    default_tolerance,
    write_standardized,
)
from experiments.bench.timing import median_ratio
from experiments.captures import capture_into
from experiments.items import first_groups
from experiments.progress import Reporter, Silent
from experiments.tasks import TASKS
from hooks import CaptureSpec, Model
from probes import (
    SweepResult,
    grouped_folds,
    same_fold_auroc,
    sweep,
    whole_group_permutations,
)

N_ITEMS = 800
N_FOLDS = 5
N_PERMUTATIONS = 50
C_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
POSITIONS = ("instruction_last", "prompt_last")
MEMORY_LAYERS = (2, 8)
GPU_CELLS = 4


@dataclass(frozen=True)
class ProbesBench:
    """What a fit costs, and whether it gives the same.

    Attributes:
        speedup_over: "sklearn": its time a fit over ours, median over rounds.
        milliseconds_a_fit: wall time over fits, all cores at work: "sweep", "sklearn", and "gpu" where there is one.
        sklearn_milliseconds_by_c: of a fit in its own process, median, by C.
        max_auroc_difference: largest difference of an out-of-fold AUROC of the sample from that of scikit-learn's
            solution at a tolerance of 1e-9 in float64.
        max_auroc_difference_at_default_tol: the same from the fits that were timed.
        n_not_converged: rows of the sweep, of `n_rows`, that say so.
        peak_memory_bytes: of a process that does nothing but sweep 8 layers.
        peak_memory_4x_layers: that over the same with 2 layers.
        n_items, n_features, n_cells, n_fits, n_sampled, cores, gpu: what was run; `gpu` is None where there is none.
        seconds: every round's times and numbers of fits.
    """

    speedup_over: dict[str, float]
    milliseconds_a_fit: dict[str, float]
    sklearn_milliseconds_by_c: dict[str, float]
    max_auroc_difference: float
    max_auroc_difference_at_default_tol: float
    n_not_converged: int
    n_rows: int
    peak_memory_bytes: int
    peak_memory_4x_layers: float
    n_items: int
    n_features: int
    n_cells: int
    n_fits: int
    n_sampled: int
    cores: int
    gpu: str | None
    seconds: list[dict[str, float]]

    def to_dict(self) -> dict[str, object]:
        """Everything, JSON-able."""
        return asdict(self)

    def lines(self) -> list[str]:
        """A table for a person."""
        ms = self.milliseconds_a_fit
        gpu = f"{ms['gpu']:10.3f}  ({self.gpu})" if "gpu" in ms else "         -  (none here)"
        return [
            f"{self.n_cells} cells of {self.n_items} x {self.n_features}, {self.n_fits} fits, {self.n_sampled} of them "
            f"by scikit-learn too, {self.cores} cores",
            "",
            "milliseconds a fit, all cores at work",
            f"  {'sweep':<36}{ms['sweep']:10.3f}",
            f"  {'sweep on a GPU':<36}{gpu}",
            f"  {'scikit-learn in a joblib pool':<36}{ms['sklearn']:10.3f}",
            *(
                f"    {f'C = {c}, in its own process':<34}{value:10.3f}"
                for c, value in self.sklearn_milliseconds_by_c.items()
            ),
            f"speedup over scikit-learn             {self.speedup_over['sklearn']:10.1f}",
            "largest difference of an out-of-fold AUROC",
            f"  {'from scikit-learn, converged':<36}{self.max_auroc_difference:10.1e}",
            f"  {'from scikit-learn, default tol':<36}{self.max_auroc_difference_at_default_tol:10.1e}",
            f"rows not converged                    {self.n_not_converged:10d}  (of {self.n_rows})",
            f"peak memory, megabytes                {self.peak_memory_bytes / 1e6:10.0f}",
            f"  {'4 times the layers':<36}{self.peak_memory_4x_layers:10.2f}",
        ]


@dataclass(frozen=True)
class Labels:
    """Three targets of one set of items, and the folds that they share."""

    targets: dict[str, Int[np.ndarray, "item"]]
    groups: np.ndarray
    folds: Int[np.ndarray, "item"]
    n_permutations: int

    @staticmethod
    def of(groups: Sequence[str], texts: Sequence[str], n_permutations: int) -> Labels:
        """One that is easy (the task), one that is graded (a long text) and one that cannot be learned (chance)."""
        lengths = np.array([len(text) for text in texts])
        targets = {
            "task": np.array([int(group.startswith("refusal")) for group in groups]),
            "long": (lengths > np.median(lengths)).astype(int),
            "chance": np.random.default_rng(0).integers(0, 2, len(groups)),
        }
        names = np.array(groups)
        return Labels(
            targets, names, grouped_folds(targets["task"], names, N_FOLDS), n_permutations
        )

    @property
    def columns(self) -> Int[np.ndarray, "target 1+permutation item"]:
        """The labels of every target and the permuted ones, as a sweep makes them."""
        return np.array(
            [
                np.column_stack(
                    [y, whole_group_permutations(y, self.groups, self.n_permutations)]
                ).T
                for y in self.targets.values()
            ]
        )

    @property
    def fits_a_cell(self) -> int:
        """Targets with their permutations x folds x C."""
        return len(self.targets) * (1 + self.n_permutations) * N_FOLDS * len(C_GRID)

    def sweep(self, reader: Reader, device: str = "cpu") -> SweepResult:
        """The sweep that is measured."""
        return sweep(
            reader,
            self.targets,
            groups=self.groups,
            folds=self.folds,
            penalties=C_GRID,
            n_permutations=self.n_permutations,
            device=device,
        )


@dataclass(frozen=True)
class Reader:
    """Some cells of a cache."""

    cache: ActivationsCache
    chosen: Sequence[Cell]

    def cells(self) -> Sequence[Cell]:
        """The chosen ones."""
        return self.chosen

    def read(self, site: str, *, layer: int | None, position: str) -> Float[np.ndarray, "item d"]:
        """As the cache does."""
        return self.cache.read(site, layer=layer, position=position)

    def arrays(self) -> Iterator[Float[np.ndarray, "item d"]]:
        """The cells, one after the other."""
        return (self.read(site, layer=layer, position=at) for site, layer, at in self.chosen)


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
        labels = Labels.of(groups, texts, n_permutations)
        return _measure(cache, labels, folder, (groups, texts), reporter)


def _measure(
    cache: ActivationsCache,
    labels: Labels,
    folder: Path,
    described: tuple[list[str], list[str]],
    reporter: Reporter,
) -> ProbesBench:
    cores = os.cpu_count() or 1
    cells = cache.cells()
    rounds = [cells[start : start + cores] for start in range(0, len(cells), cores)]
    rng = np.random.default_rng(0)
    columns = labels.columns
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
            result = labels.sweep(reader)
            ours = time.perf_counter() - start

            sample = Sample.draw(rng, len(chosen), columns.shape[:2], C_GRID)
            write_standardized(reader.arrays(), labels.folds, folder)
            start = time.perf_counter()
            rival = sample.fit(pool, folder, columns, labels.folds, default_tolerance)
            theirs = time.perf_counter() - start
            if number == 0:  # the first one warms up
                continue
            exact = sample.fit(pool, folder, columns, labels.folds, converged)
            seconds.append(
                {
                    "sweep": ours,
                    "sweep fits": labels.fits_a_cell * len(chosen),
                    "sklearn": theirs,
                    "sklearn fits": len(sample) * N_FOLDS,
                    "sweep a fit": ours / labels.fits_a_cell / len(chosen),
                    "sklearn a fit": theirs / len(sample) / N_FOLDS,
                }
            )
            for unit, fitted in zip(sample.units, rival, strict=True):
                of_c[unit.C] += fitted.seconds
            found = aurocs_in_sweep(sample, result, len(labels.targets))
            for kind, fits in (("default", rival), ("converged", exact)):
                expected = [
                    same_fold_auroc(columns[one.target, one.column], fit.scores, labels.folds)
                    for one, fit in zip(sample.units, fits, strict=True)
                ]
                differences[kind].append(float(np.abs(found - np.array(expected)).max()))
            n_not_converged += sum(not row.converged for row in result.rows)
            advance(1)
        gpu_seconds = _gpu_seconds_a_fit(cache, labels)
        advance(1)
        peaks = _peaks(cache, labels, folder, described)
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
        n_rows=len(cells) * len(labels.targets) * len(C_GRID),
        peak_memory_bytes=peaks[-1],
        peak_memory_4x_layers=peaks[-1] / peaks[0],
        n_items=len(labels.groups),
        n_features=cache.d_model or 0,
        n_cells=len(cells),
        n_fits=labels.fits_a_cell * len(cells),
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


def _gpu_seconds_a_fit(cache: ActivationsCache, labels: Labels) -> float | None:
    if not torch.cuda.is_available():
        return None
    reader = Reader(cache, cache.cells()[:GPU_CELLS])
    for _ in range(2):  # the first one warms up
        start = time.perf_counter()
        labels.sweep(reader, "cuda")
        torch.cuda.synchronize()
        took = time.perf_counter() - start
    return took / labels.fits_a_cell / len(reader.cells())


def _peaks(
    cache: ActivationsCache,
    labels: Labels,
    folder: Path,
    described: tuple[list[str], list[str]],
) -> list[int]:
    """Peak memory of a process of its own for a few layers and for four times as many."""
    about: Mapping[str, Any] = {
        "described": described,
        "n_permutations": labels.n_permutations,
        "cache": str(cache.path),
    }
    file = folder / "sweep.json"
    file.write_text(json.dumps(about), encoding="utf-8")
    return [
        peak_of_process("experiments.bench.probes", str(file), str(layers))
        for layers in MEMORY_LAYERS
    ]


def _sweep_in_this_process(file: Path, n_layers: int) -> None:
    about = json.loads(file.read_text(encoding="utf-8"))
    cache = ActivationsCache.open(about["cache"])
    cells = [cell for cell in cache.cells() if (cell[1] or 0) < n_layers]
    groups, texts = about["described"]
    Labels.of(groups, texts, about["n_permutations"]).sweep(Reader(cache, cells))


if __name__ == "__main__":
    _sweep_in_this_process(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write(str(peak_of_this_process()))

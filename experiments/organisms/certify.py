"""The certification: every condition at every number of items, drawn, scored and diagnosed for many seeds.

The numbers of a simulation depend on its seed alone and never on how many processes share the work. What is finished is
kept in `rows.jsonl`, so that the same call picks up where it was stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from inspect import getsource
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
from threadpoolctl import threadpool_limits

from experiments.inequalities import Rules
from experiments.organisms.conditions import Condition, graded, large, standard, variants
from experiments.organisms.scored_simulation import Scorer
from experiments.progress import Reporter, Silent
from experiments.records import append_rows, read_whole_rows
from experiments.run_folder import versions
from probes import skip_reason

INSTRUMENT = (
    "experiments.organisms.simulate",
    "experiments.organisms.planted",
    "experiments.organisms.conditions",
    "experiments.organisms.scored_simulation",
    "experiments.inequalities",
    "experiments.breakdown",
)
"""The modules whose texts a finished simulation is good for, beside the versions of libraries."""
FEWEST = 40
COLUMNS = ("n", "delta", "seed", "suite", "name", "multiple", "stage", "diagnosed", "open")
FEW_ITEMS, MANY_ITEMS = 100, 1000
"""Up to so few items large differences are drawn; beyond them, and up to so many, variants are."""


@dataclass(frozen=True)
class Plan:
    """What is drawn."""

    seeds: int = 200
    """Of standard, large and variant conditions."""
    graded_seeds: int = 25
    """Of graded ones, which are five times as many."""
    sizes: tuple[tuple[int, float], ...] = ((60, 0.08), (600, 0.08), (1600, 0.05))
    """Numbers of items, each with its margin."""
    multiples: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)
    """Losses of graded conditions, in margins."""

    def __post_init__(self) -> None:
        for name in ("seeds", "graded_seeds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} is negative; give 0 or more")
        for n, delta in self.sizes:
            if n < FEWEST:
                raise ValueError(f"n: {n} items are too few for folds; give {FEWEST} at least")
            if not 0 < delta < 0.5:
                raise ValueError(
                    f"delta: {delta} is no margin of an AUROC; give one between 0 and 0.5"
                )
            graded(self.multiples, Rules(delta=delta))

    @property
    def jobs(self) -> list[Job]:
        """For every number of items and seed, one of graded conditions and one of all others."""
        return [
            Job(n, delta, seed, multiples)
            for n, delta in self.sizes
            for multiples, seeds in ((None, self.seeds), (self.multiples, self.graded_seeds))
            for seed in range(seeds)
        ]


@dataclass(frozen=True)
class Job:
    """The conditions of one seed at one number of items."""

    n: int
    delta: float
    seed: int
    multiples: tuple[float, ...] | None
    """Of graded conditions; None for all others."""

    @property
    def key(self) -> str:
        """Names it in the file of what is finished, with what it was made by."""
        return json.dumps(asdict(self) | {"made_by": _made_by()})

    def rows(self) -> list[dict[str, Any]]:
        """Draw, score and diagnose every condition."""
        with threadpool_limits(1, user_api="blas"):
            scorer = Scorer()
            return [self._row(condition, scorer) for condition in self._conditions()]

    def _conditions(self) -> list[Condition]:
        if self.multiples is not None:
            return graded(self.multiples, Rules(delta=self.delta))
        if self.n <= FEW_ITEMS:
            return standard() + large()
        return standard() + (variants(self.seed) if self.n <= MANY_ITEMS else [])

    def _row(self, condition: Condition, scorer: Scorer) -> dict[str, Any]:
        simulated = condition.simulate(self.n, self.seed)
        row: dict[str, Any] = {
            "n": self.n,
            "delta": self.delta,
            "seed": self.seed,
            "suite": condition.suite,
            "name": condition.name,
            "multiple": condition.multiple,
        }
        reason = skip_reason(simulated.outcome, simulated.groups)
        if reason is not None:
            # A run says so and diagnoses nothing, which is as open as a diagnosis can be.
            return row | {"stage": "undetermined", "diagnosed": "undetermined", "open": reason}
        found = scorer.score(simulated).diagnose(Rules(delta=self.delta))
        return row | {
            "stage": found.stage,
            "diagnosed": condition.diagnosed(found),
            "open": found.open_question,
        }


@cache
def _made_by() -> str:
    texts = [getsource(import_module(name)) for name in INSTRUMENT]
    made_by = json.dumps([versions(), texts], sort_keys=True)
    return hashlib.sha256(made_by.encode()).hexdigest()[:16]


def certify(
    plan: Plan, out: Path, *, workers: int | None = None, reporter: Reporter | None = None
) -> pd.DataFrame:
    """Do what `out` does not hold yet of a plan; a row a simulation (`COLUMNS`).

    Args:
        plan: what is drawn.
        out: the folder of `rows.jsonl`, which holds what is finished. What other versions or rules have made is left
            in it, and not used.
        workers: processes; one a core unless given.
        reporter: shows how far it is.
    """
    path = out / "rows.jsonl"
    done = {line["job"]: line["rows"] for line in read_whole_rows(path)}
    jobs = plan.jobs
    missing = [job for job in jobs if job.key not in done]
    with (reporter or Silent()).stage("organisms certify", len(jobs)) as advance:
        advance(len(jobs) - len(missing))
        for job, rows in _finished(missing, workers):
            append_rows(path, [{"job": job.key, "rows": rows}])
            done[job.key] = rows
            advance(1)
    rows = [row for job in jobs for row in done[job.key]]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"multiple": float})


def _finished(
    jobs: Sequence[Job], workers: int | None
) -> Iterator[tuple[Job, list[dict[str, Any]]]]:
    """The rows of every job as they are finished, graded ones last."""
    ordered = sorted(jobs, key=lambda job: (job.multiples is None, job.n), reverse=True)
    pool = joblib.Parallel(workers or joblib.cpu_count(), return_as="generator_unordered")
    yield from pool(joblib.delayed(_with_rows)(job) for job in ordered)


def _with_rows(job: Job) -> tuple[Job, list[dict[str, Any]]]:
    return job, job.rows()


def sizes_of(
    ns: Sequence[int] | None, deltas: Sequence[float] | None
) -> tuple[tuple[int, float], ...]:
    """Numbers of items with their margins.

    Args:
        ns: None for those of the default plan.
        deltas: one for all, or one each; None for 0.08, and 0.05 from 1,600 items on.

    Raises ValueError for another number of margins.
    """
    items = list(ns or [n for n, _ in Plan.sizes])
    margins = list(deltas or [0.05 if n >= 1600 else 0.08 for n in items])
    if len(margins) == 1:
        margins *= len(items)
    if len(margins) != len(items):
        raise ValueError(f"delta: {len(margins)} of them for {len(items)} n; give one, or one each")
    return tuple(zip(items, margins, strict=True))

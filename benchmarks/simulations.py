"""What the simulations share: a process a core with one BLAS thread each, means with their error."""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

Result = TypeVar("Result")


def arguments(description: str | None, sims: int) -> argparse.Namespace:
    """`--sims` and `--workers` of the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--sims", type=int, default=sims, help="simulations a regime")
    parser.add_argument("--workers", type=int, help="processes; one a core unless given")
    return parser.parse_args()


def simulate(
    one: Callable[[int], Result | None], seeds: Iterable[int], workers: int | None = None
) -> list[Result]:
    """`one(seed)` of every seed; None is a draw that cannot be scored and is left out."""
    with multiprocessing.Pool(workers, initializer=_one_thread) as pool:
        return [result for result in pool.map(one, seeds) if result is not None]


def _one_thread() -> None:
    threadpool_limits(1)


def mean_and_error(values: ArrayLike) -> Float[np.ndarray, "2 ..."]:
    """Mean over simulations (the first axis), and its Monte Carlo standard error."""
    rows = np.asarray(values, dtype=np.float64)
    return np.stack([rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))])


def shown(values: ArrayLike, digits: int = 3) -> str:
    """`mean +- error` of one column of simulations."""
    mean, error = mean_and_error(values)
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def print_row(cells: Sequence[object]) -> None:
    """One row of a Markdown table, at once."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def print_header(names: Sequence[str]) -> None:
    """The head of a Markdown table."""
    print_row(names)
    print("|" + "---|" * len(names))

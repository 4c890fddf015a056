from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import joblib
import torch
from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called with (candidates done, candidates in all)."""


def map_in_threads(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    progress: Progress | None,
    *,
    workers: int | None = None,
) -> list[Result]:
    """`function` of every item, in order, one thread a core that this process may use, or `workers` of them.

    The matrices are too small for a BLAS that spreads over cores: one thread a worker is faster,
    and its results do not depend on the number of cores.
    """
    results = []
    with one_thread_a_worker(), ThreadPoolExecutor(workers or joblib.cpu_count()) as pool:
        for done, result in enumerate(pool.map(function, items), start=1):
            results.append(result)
            if progress is not None:
                progress(done, len(items))
    return results


@contextmanager
def one_thread_a_worker() -> Iterator[None]:
    """Keep BLAS, and torch in threads that are started inside, from spreading over cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)

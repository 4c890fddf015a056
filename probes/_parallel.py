from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called with (candidates done, candidates in all)."""


def map_in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], progress: Progress | None
) -> list[Result]:
    """`function` of every item, in order, one thread a core.

    The matrices are too small for a BLAS that spreads over cores: one BLAS thread a worker is
    faster, and its results do not depend on the number of cores.
    """
    results = []
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as workers:
        for done, result in enumerate(workers.map(function, items), start=1):
            results.append(result)
            if progress is not None:
                progress(done, len(items))
    return results

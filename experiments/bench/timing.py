"""Timing contestants in turns, and measuring what they keep in memory.

The speed of a machine drifts by a factor within seconds, so single times say little. Contestants take turns (A B C A
B C ...), and what is reported is the median of the ratios of neighbors.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median

import torch
from torch.profiler import ProfilerActivity, profile

Turns = Mapping[str, Sequence[Callable[[], object]]]


def seconds_in_turns(rounds: Sequence[Turns]) -> list[dict[str, float]]:
    """Run rounds of contestants, and return for each round the seconds that each of them took.

    A contestant's work in a round comes in slices; the first slice of everybody is run, then the second, and so on,
    so that a slow moment hits all of them.
    """
    seconds = []
    for contestants in rounds:
        total = dict.fromkeys(contestants, 0.0)
        for turn in range(max(map(len, contestants.values()))):
            for name, slices in contestants.items():
                if turn < len(slices):
                    start = time.perf_counter()
                    slices[turn]()
                    if torch.cuda.is_available():
                        torch.cuda.synchronize()
                    total[name] += time.perf_counter() - start
        seconds.append(total)
    return seconds


def median_ratio(rounds: Sequence[Mapping[str, float]], a: str, b: str) -> float:
    """Return the median over rounds of the time of `a` over that of `b`."""
    return median(seconds[a] / seconds[b] for seconds in rounds)


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Drop what the profiler's own library writes."""
    sys.stderr.flush()
    before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def peak_bytes(work: Callable[[], object], device: torch.device) -> int:
    """Return the most bytes of tensors that `work` holds at one moment on a device, by torch's own allocator."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    with (
        _silent_stderr(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler,
    ):
        work()
    assert profiler.profiler is not None
    # The allocations one by one: the public tables have only their sums.
    results = profiler.profiler.kineto_results
    assert results is not None
    held = peak = 0
    events = [event for event in results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak

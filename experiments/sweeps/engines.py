"""Where the jobs of a sweep run: in this process, in processes over cores or GPUs, or (`ray_engine`) on a cluster.

Results never travel: a worker writes them into the sweep's folder, and what is there is what is finished.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any, Protocol

import joblib
import torch

from experiments.sweeps.work import Batch, do_batch, is_settled, note_lost

LOOK_S = 1.0
"""Seconds between two looks at what is finished."""


class Engine(Protocol):
    """Runs batches of jobs that do not need one another."""

    def slots(self, on_gpu: bool) -> int:
        """Batches that run at the same time."""
        ...

    def run(self, batches: Sequence[Batch], *, on_gpu: bool) -> Iterator[None]:
        """Run the batches; yields now and then, so that the caller can look what is finished.

        Args:
            batches: of jobs. One whose worker is lost is done again, and recorded as failed if that does not help.
            on_gpu: whether the jobs run a model, which goes to a GPU where there is one.

        Raises:
            RuntimeError: no worker is left that could do the work.
        """
        ...


@dataclass(frozen=True)
class InProcess:
    """One job after the other, here."""

    threads: int | None = None
    """None for as many as torch and the solvers take by themselves."""
    gpus_per_cell: int | None = None

    def __post_init__(self) -> None:
        check_gpus(self.gpus_per_cell or 0, len(visible_gpus()), "this machine")

    def slots(self, on_gpu: bool) -> int:
        """One."""
        return 1

    def run(self, batches: Sequence[Batch], *, on_gpu: bool) -> Iterator[None]:
        """Run the jobs; yields after each."""
        device = device_for(self.gpus_per_cell)
        for batch in batches:
            for job in batch.jobs:
                do_batch(replace(batch, jobs=(job,), threads=self.threads, device=device))
                yield


@dataclass(frozen=True)
class Cores:
    """Processes of this machine; where there are GPUs, each is dealt one of them, or `gpus_per_cell`."""

    workers: int | None = None
    """Processes; by default one for every share of the GPUs, else one a core."""
    threads: int | None = None
    """Of each process; by default the cores are shared evenly."""
    gpus_per_cell: int | None = None
    """None for one where there are any."""

    def __post_init__(self) -> None:
        check_gpus(self.gpus_per_cell or 0, len(visible_gpus()), "this machine")

    @property
    def shares(self) -> list[str]:
        """What CUDA_VISIBLE_DEVICES is for each process in turn; empty where no GPU is used."""
        each, gpus = self.gpus_per_cell, visible_gpus()
        each = 1 if each is None else each
        starts = range(0, len(gpus) - each + 1, each) if each else ()
        return [",".join(gpus[start : start + each]) for start in starts]

    def slots(self, on_gpu: bool) -> int:
        """Processes that work at the same time."""
        return self.workers or len(self.shares) or joblib.cpu_count()

    def run(self, batches: Sequence[Batch], *, on_gpu: bool) -> Iterator[None]:
        """Run the batches; yields after each, and every second.

        A pool dies with any of its workers. What was in flight then is done again job by job, each in a process of its
        own, so that one that kills its worker is known; the rest goes on in a new pool.
        """
        slots = self.slots(on_gpu)
        threads = self.threads or max(1, joblib.cpu_count() // slots)
        shares = self.shares if on_gpu else []
        device = device_for(self.gpus_per_cell) if on_gpu else "cpu"
        todo = [replace(batch, threads=threads, device=device) for batch in batches]
        while todo:
            for batch in (yield from _run_pool(todo, slots, shares)):
                for job in batch.jobs:
                    alone = replace(batch, jobs=(job,))
                    if not is_settled(alone) and (yield from _run_pool([alone], 1, shares)):
                        note_lost(batch.out, job)
            todo = [batch for batch in todo if not is_settled(batch)]


def _run_pool(
    batches: Sequence[Batch], slots: int, shares: Sequence[str]
) -> Generator[None, None, list[Batch]]:
    """Run the batches in a new pool; returns those that were in flight when it broke, none if it did not."""
    context = multiprocessing.get_context("spawn")
    dealt = context.SimpleQueue()
    for slot in range(slots):
        dealt.put(shares[slot % len(shares)] if shares else "")
    waiting, running = deque(batches), dict[Future[None], Batch]()
    with ProcessPoolExecutor(slots, context, _begin, (dealt,)) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < slots:
                    batch = waiting.popleft()
                    running[pool.submit(do_batch, batch)] = batch
                done, _ = wait(running, LOOK_S, FIRST_COMPLETED)
                for future in done:
                    future.result()
                    del running[future]
                yield
        except BrokenProcessPool:
            return list(running.values())
        finally:
            pool.shutdown(cancel_futures=True)
    return []


def _begin(dealt: Any) -> None:
    """Take a share of the GPUs, and end with the process that hands out the work, however it ends."""
    os.environ["CUDA_VISIBLE_DEVICES"] = dealt.get()
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (named.split(",") if named else [str(index) for index in range(count)])[:count]


def check_gpus(wanted: float, there: float, where: str) -> None:
    """Raise ValueError if a cell asks for more GPUs than there are in one place."""
    if wanted > there:
        raise ValueError(
            f"gpus-per-cell: {wanted:g} asked for, but {where} has {there:g}; ask for fewer, or for 0"
        )


def device_for(gpus_per_cell: float | None) -> str | None:
    """Where a model goes, as `load_model` takes it: spread over several GPUs, or one, or the CPU."""
    if gpus_per_cell is None:
        return None
    return "cpu" if gpus_per_cell == 0 else "auto" if gpus_per_cell > 1 else None

"""The jobs of a sweep on a Ray cluster: one that is started here, or one that runs already.

Ray places the work and does it again when a worker or a node is lost; what it gives up on is handed to it once more.
"""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import joblib

from experiments.sweeps.engines import LOOK_S, check_gpus, device_for
from experiments.sweeps.work import Batch, do_batch, note_lost

RETRIES = 3
"""Times that Ray does a batch again by itself after losing its worker."""
CONNECT_S = 10.0


class OnRay:
    """Use as a context: it connects, and disconnects at the end.

    Args:
        address: of a running cluster ("auto" for that of this machine); None starts one here.
        workers: batches at the same time on a cluster that is started here; by default one a core.
        threads: CPUs that a batch is given.
        gpus_per_cell: GPUs that a batch of a model's work is given, parts of one too; None for one where the cluster
            has any.

    Raises:
        ValueError: Ray is not installed, no cluster at the address, or no node with so many CPUs and GPUs.
    """

    def __init__(
        self,
        address: str | None = None,
        workers: int | None = None,
        threads: int | None = None,
        gpus_per_cell: float | None = None,
    ) -> None:
        if address is not None and workers is not None:
            raise ValueError(
                "workers: a running cluster takes as many as its CPUs and GPUs allow; leave --workers out "
                "and give --threads, the CPUs of each"
            )
        self.ray = _import_ray()
        self.address = address
        self.workers = workers
        self.threads = threads or 1
        self.asked_gpus = gpus_per_cell

    def __enter__(self) -> OnRay:
        own: dict[str, Any] = {}
        if self.address is not None:
            _check_reachable(self.address)
        else:
            cpus = (self.workers or joblib.cpu_count()) * self.threads
            own = {"num_cpus": cpus, "include_dashboard": False}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # Ray's tips
                self.ray.init(
                    self.address or "local",
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    **own,
                )
        except (ConnectionError, ValueError) as error:
            raise ValueError(_no_cluster(self.address, error)) from None
        try:
            most = max(node.get("GPU", 0.0) for node in self._nodes())
            self.gpus = float(most > 0) if self.asked_gpus is None else self.asked_gpus
            check_gpus(self.gpus, most, "no node of the cluster has so many: the largest")
            if not self._fitting(0):
                raise ValueError(
                    f"threads: no node of the cluster has {self.threads} CPUs; ask for fewer"
                )
        except ValueError:
            self.ray.shutdown()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.ray.shutdown()

    def slots(self, on_gpu: bool) -> int:
        """Batches that fit on the nodes now."""
        return max(1, self._fitting(self.gpus if on_gpu else 0))

    def run(self, batches: Sequence[Batch], *, on_gpu: bool) -> Iterator[None]:
        """Run the batches; yields after each, and every second.

        Raises:
            RuntimeError: no node is left that could do the work.
        """
        gpus = self.gpus if on_gpu else 0
        given = {"num_cpus": self.threads, "num_gpus": gpus, "max_retries": RETRIES}
        remote = self.ray.remote(do_batch).options(**given)
        device = device_for(gpus)
        waiting = {
            remote.remote(one): one
            for one in (replace(b, threads=self.threads, device=device) for b in batches)
        }
        again: set[Any] = set()
        while waiting:
            done, _ = self.ray.wait(list(waiting), timeout=LOOK_S)
            for reference in done:
                batch = waiting.pop(reference)
                try:
                    self.ray.get(reference)
                except self.ray.exceptions.RayTaskError as error:
                    raise RuntimeError(
                        f"ray: a worker cannot work ({error.cause}); selfprobe must be installed on every node, and "
                        f"every node must see {batch.out}"
                    ) from None
                except self.ray.exceptions.RayError:
                    for job in batch.jobs:
                        if reference in again:
                            note_lost(batch.out, job)
                            continue
                        alone = replace(batch, jobs=(job,))
                        anew = remote.remote(alone)
                        waiting[anew] = alone
                        again.add(anew)
            if waiting and not self._fitting(gpus):
                raise RuntimeError(
                    f"ray: no node is left with {self.threads} CPUs and {gpus:g} GPUs; start nodes and run the "
                    "same command again, which picks up what is finished"
                )
            yield

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def _fitting(self, gpus: float) -> int:
        """Batches that the living nodes can hold together."""
        return sum(
            int(
                min(
                    node.get("CPU", 0.0) // self.threads,
                    node.get("GPU", 0.0) // gpus if gpus else float("inf"),
                )
            )
            for node in self._nodes()
        )


def _check_reachable(address: str) -> None:
    """Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"address: {address!r} is neither HOST:PORT nor auto")
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise ValueError(_no_cluster(address, error)) from None


def _no_cluster(address: str | None, error: Exception) -> str:
    reason = str(error).partition("\n")[0]
    return f"address: no Ray cluster at {address!r} ({reason}); start one with `ray start --head`"


def _import_ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise ValueError("engine: Ray is not installed; pip install 'selfprobe[ray]'") from None
    module: ModuleType = ray
    return module

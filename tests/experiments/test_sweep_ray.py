"""A sweep on a Ray cluster of two nodes of this machine, one of which is killed at work."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.sweeps.runner import Sweep
from tests.experiments.test_sweep import (  # noqa: F401  (fixtures)
    assert_same_bytes,
    finish,
    grid,
    start,
    tasks,
    unbroken,
    wait_for,
)

ray = pytest.importorskip("ray", reason="needs selfprobe[ray]")
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator:
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    head = {"num_cpus": 1, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()


def children(parent: int) -> dict[int, str]:
    """Process -> its command line, of all that `parent` has started."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if f"PPid:\t{parent}\n" in status.read_text():
                command = (status.parent / "cmdline").read_bytes()
                found[int(status.parent.name)] = command.replace(b"\0", b" ").decode().strip()
        except OSError:
            continue  # it has ended meanwhile
    return found


def at_work(raylet: int) -> bool:
    return any(command.startswith("ray::do_batch") for command in children(raylet).values())


def test_with_one_of_two_nodes_killed_it_ends_with_the_same_table(
    unbroken: Sweep,  # noqa: F811
    start,  # noqa: F811
    cluster,
    tmp_path: Path,
) -> None:
    node = cluster.add_node(num_cpus=1)
    (raylet,) = (info.process.pid for info in node.all_processes["raylet"])
    out = tmp_path / "ray"
    process = start(out, "--engine", "ray", "--address", cluster.address)
    begun = lambda: len(list(out.glob("sources/*/cache"))) >= 1  # noqa: E731
    wait_for(lambda: begun() and at_work(raylet), process)
    assert at_work(raylet), process.communicate()[0]
    doomed = children(raylet)
    for pid in (raylet, *doomed):
        os.kill(pid, signal.SIGKILL)
    assert not (out / "results.csv").exists()
    finish(process)
    assert_same_bytes(out, unbroken)
    alive = [info["Alive"] for info in cluster_nodes(cluster.address)]
    assert sorted(alive) == [False, True]


def cluster_nodes(address: str) -> list[dict]:
    ray.init(address, log_to_driver=False)
    try:
        return ray.nodes()
    finally:
        ray.shutdown()


def test_on_a_cluster_that_is_started_for_it(
    unbroken: Sweep,  # noqa: F811
    start,  # noqa: F811
    tmp_path: Path,
) -> None:
    out = tmp_path / "ray"
    began = time.monotonic()
    finish(start(out, "--engine", "ray", "--workers", "2"))
    assert_same_bytes(out, unbroken)
    assert time.monotonic() > began


def test_no_cluster_no_gpu_and_too_many_cpus_are_refused(start, tmp_path: Path) -> None:  # noqa: F811
    out = tmp_path / "out"
    for options, message in (
        (("--address", "127.0.0.1:1"), "no Ray cluster at '127.0.0.1:1'"),
        (("--gpus-per-cell", "99"), "gpus-per-cell: 99 asked for"),
        (("--address", "auto", "--workers", "2"), "leave --workers out"),
    ):
        assert message in finish(start(out, "--engine", "ray", *options), status=2)
    assert not out.exists()

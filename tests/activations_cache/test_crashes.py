"""What a cache is worth after its writer died, its disk filled up, or its files were damaged."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from activations_cache import ActivationsCache, CacheLockedError, journal
from activations_cache.journal import ShardRecord
from activations_cache.lock import Owner
from activations_cache.names import LOCK_NAME
from tests.activations_cache.cache_batches import (
    FINGERPRINT,
    SPEC,
    make_batch,
    make_plan,
    shards_of,
)

PLAN = make_plan(n_batches=60)


def write_missing(folder: Path, pause: float = 0.0) -> None:
    """Capture whatever batches of the plan are not committed, as a resumed run does."""
    if folder.exists() and (folder / "manifest.json").exists():
        cache = ActivationsCache.open(folder, fingerprint=FINGERPRINT)
    else:
        cache = ActivationsCache.create(folder, fingerprint=FINGERPRINT, spec=SPEC, shard_rows=10)
    with cache:
        for ids in PLAN:
            if cache.missing(ids):
                cache.append(make_batch(ids, options=("yes",)))
                time.sleep(pause)


def start(target: Callable[..., None], *arguments: object) -> multiprocessing.Process:
    process = multiprocessing.get_context("fork").Process(target=target, args=arguments)
    process.start()
    return process  # type: ignore[return-value]


def checksums(folder: Path) -> list[str]:
    return [shard["sha256"] for shard in shards_of(folder)]


def test_a_capture_killed_many_times_ends_as_one_that_was_not(tmp_path: Path) -> None:
    write_missing(tmp_path / "whole")
    random = np.random.default_rng(0)
    killed = 0
    for _ in range(8):
        writer = start(write_missing, tmp_path / "killed", 0.005)
        time.sleep(random.uniform(0.05, 0.3))
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        killed += writer.exitcode == -signal.SIGKILL
        if (tmp_path / "killed" / "manifest.json").exists():
            committed = ActivationsCache.open(tmp_path / "killed").ids
            assert committed == tuple(i for ids in PLAN for i in ids)[: len(committed)]
            assert len(committed) % len(PLAN[0]) == 0
    assert killed >= 3
    write_missing(tmp_path / "killed")
    assert checksums(tmp_path / "killed") == checksums(tmp_path / "whole")
    cache = ActivationsCache.open(tmp_path / "killed")
    assert cache.missing(i for ids in PLAN for i in ids) == []
    assert len(set(cache.ids)) == len(cache) == 240
    # A writer killed between its last commit and its end leaves its lock, for the next one to take.
    names = {path.name for path in (tmp_path / "killed").iterdir()} - {LOCK_NAME}
    assert names == {path.name for path in (tmp_path / "whole").iterdir()}


def die_before_second_line(folder: Path) -> None:
    append, calls = journal.append, iter(range(10))

    def dying(path: Path, shard: ShardRecord) -> None:
        if next(calls) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        append(path, shard)

    journal.append = dying
    write_missing(folder)


def test_a_shard_renamed_but_not_listed_does_not_count(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    writer = start(die_before_second_line, folder)
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    assert (folder / "shard-0-000001.h5").exists()
    cache = ActivationsCache.open(folder)
    assert len(cache) == 12
    assert cache.read("embed", position="prompt_last").shape == (12, 8)
    cache.append(make_batch(["another"], options=("yes",)))
    assert not (folder / "shard-0-000001.h5").exists()
    cache.close()
    assert ActivationsCache.open(folder).ids[-1] == "another"


def test_a_truncated_or_missing_shard_is_named(tmp_path: Path) -> None:
    write_missing(tmp_path / "cache")
    shard = tmp_path / "cache" / "shard-0-000002.h5"
    reader = ActivationsCache.open(tmp_path / "cache")
    whole = shard.read_bytes()
    shard.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        ValueError, match=rf"shard-0-000002.h5 has {len(whole) // 2} of {len(whole)}"
    ):
        ActivationsCache.open(tmp_path / "cache")
    with pytest.raises(ValueError, match=r"shard-0-000002.h5 cannot be read"):
        reader.read("embed", position="prompt_last")
    shard.unlink()
    with pytest.raises(ValueError, match=r"shard-0-000002.h5 is missing"):
        ActivationsCache.open(tmp_path / "cache")


@pytest.mark.parametrize("at_write", [1, 2, 3], ids=str)
def test_a_full_disk_loses_nothing_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_write: int
) -> None:
    folder = tmp_path / "cache"
    cache = ActivationsCache.create(folder, fingerprint=FINGERPRINT, spec=SPEC, shard_rows=4)
    fsync, calls = os.fsync, iter(range(1, 100))

    def full(descriptor: int) -> None:
        # A shard is synced, its folder, then the journal.
        if next(calls) == at_write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    cache.append(make_batch(PLAN[0]))
    cache.flush()
    monkeypatch.setattr(os, "fsync", full)
    cache.append(make_batch(PLAN[1]))
    with pytest.raises(OSError, match=r"cannot write to .*cache: No space left on device; 4 com"):
        cache.flush()
    assert not list(folder.glob("*.tmp"))
    assert ActivationsCache.open(folder).ids[:4] == PLAN[0]
    cache.flush()
    cache.close()
    assert ActivationsCache.open(folder).ids == PLAN[0] + PLAN[1]


def test_a_second_writer_is_refused_with_owner_and_age(tmp_path: Path) -> None:
    first = ActivationsCache.create(tmp_path / "cache", fingerprint=FINGERPRINT, spec=SPEC)
    second = ActivationsCache.open(tmp_path / "cache")
    with pytest.raises(CacheLockedError, match=rf"written by process {os.getpid()} on .* s ago"):
        second.append(make_batch(["a"]))
    first.append(make_batch(["a"]))
    first.close()
    with pytest.raises(ValueError, match="'a' is in the cache already"):
        second.append(make_batch(["a"]))
    second.append(make_batch(["b"]))
    second.close()
    assert not (tmp_path / "cache" / LOCK_NAME).exists()
    assert ActivationsCache.open(tmp_path / "cache").ids == ("a", "b")


@pytest.mark.parametrize(
    "owner",
    [
        '{"pid": 4194999, "host": "HOST", "started": null, "since": 0}',
        '{"pid": PID, "host": "HOST", "started": "1", "since": 0}',
        '{"pid": 12',
        "",
    ],
    ids=["dead", "number reused", "cut short", "empty"],
)
def test_a_stale_lock_is_taken_over(tmp_path: Path, owner: str) -> None:
    ActivationsCache.create(tmp_path / "cache", fingerprint=FINGERPRINT, spec=SPEC).close()
    owner = owner.replace("HOST", os.uname().nodename).replace("PID", str(os.getpid()))
    (tmp_path / "cache" / LOCK_NAME).write_text(owner)
    with ActivationsCache.open(tmp_path / "cache") as cache:
        cache.append(make_batch(["a"]))
    assert len(cache) == 1


def test_the_lock_of_another_machine_stands(tmp_path: Path) -> None:
    assert Owner(4194999, "elsewhere", None, 0.0).may_be_alive()
    assert Owner.current().may_be_alive()

"""What a cache is worth after its writer died, its disk filled up, or its files were damaged."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from activations_cache import ActivationsCache, CacheLockedError, journal, repair, verify
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
    # All pauses take 1.8 s, and the writers together get less: none ends before it is killed.
    for _ in range(5):
        writer = start(write_missing, tmp_path / "killed", 0.03)
        time.sleep(random.uniform(0.05, 0.3))
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        assert writer.exitcode == -signal.SIGKILL
        if (tmp_path / "killed" / "manifest.json").exists():
            committed = ActivationsCache.open(tmp_path / "killed").ids
            assert committed == tuple(i for ids in PLAN for i in ids)[: len(committed)]
            assert len(committed) % len(PLAN[0]) == 0
    write_missing(tmp_path / "killed")
    assert checksums(tmp_path / "killed") == checksums(tmp_path / "whole")
    cache = ActivationsCache.open(tmp_path / "killed")
    assert cache.missing(i for ids in PLAN for i in ids) == []
    assert len(set(cache.ids)) == len(cache) == 240
    # A writer killed between its last commit and its end leaves its lock, for the next one to take.
    names = {path.name for path in (tmp_path / "killed").iterdir()} - {LOCK_NAME}
    assert names == {path.name for path in (tmp_path / "whole").iterdir()}


def die_in_the_middle_of_a_file(folder: Path, after: int, work: str) -> None:
    """The kernel kills at the first byte beyond `after`: the file is left half written."""
    cache = ActivationsCache.open(folder)
    cache.extend(SPEC)
    if work == "shard":
        cache.append(make_batch(PLAN[1], options=("yes",)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, after))
    if work == "shard":
        cache.flush()
    else:
        cache.extend(replace(SPEC, sites=("final_norm",)))


@pytest.mark.parametrize("work", ["shard", "manifest"])
def test_trap_13_a_file_that_was_half_written_does_not_have_its_name(
    tmp_path: Path, work: str
) -> None:
    folder = tmp_path / "cache"
    with ActivationsCache.create(folder, fingerprint=FINGERPRINT, spec=SPEC) as cache:
        cache.append(make_batch(PLAN[0], options=("yes",)))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    name, half = {
        "shard": ("shard-0-000001.h5", 3000),
        "manifest": ("manifest.json", 300),
    }[work]
    writer = start(die_in_the_middle_of_a_file, folder, half, work)
    writer.join()
    assert writer.exitcode == -signal.SIGXFSZ
    assert (folder / f"{name}.tmp").stat().st_size == half
    (folder / f"{name}.tmp").unlink()
    (folder / LOCK_NAME).unlink()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert verify(folder).problems == ()


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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a file system is not permitted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_full_loses_nothing_and_the_capture_goes_on_elsewhere(
    small_disk: Path, tmp_path: Path
) -> None:
    batches = [tuple(f"{b}-{row}" for row in range(16)) for b in range(40)]
    cache = ActivationsCache.create(
        small_disk / "cache", fingerprint=FINGERPRINT, spec=SPEC, plan=batches, shard_rows=16
    )

    def append_all() -> None:
        for ids in batches:
            cache.append(make_batch(ids, d_model=64))

    with pytest.raises(OSError, match=r"cannot write to .*: No space left on device; \d+ comm"):
        append_all()
    with pytest.raises(OSError, match="No space left on device"):
        cache.close()
    n_buffered = len(cache)
    del cache
    full = ActivationsCache.open(small_disk / "cache", plan=batches)
    n_committed = len(full)
    assert 16 <= n_committed < n_buffered
    assert [problem.kind for problem in verify(full.path).problems] == ["incomplete"]
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    with full:
        for ids in batches:
            if full.missing(ids):
                full.append(make_batch(ids, d_model=64))
    assert verify(full.path).problems == ()
    assert full.ids == tuple(item for ids in batches for item in ids)
    whole = make_batch(full.ids, d_model=64).sites["embed"][:, 0, 1]
    np.testing.assert_array_equal(
        full.read("embed", position="prompt_last"), whole.bfloat16().float().numpy()
    )


def test_a_read_only_folder_can_be_read_and_is_refused_by_name(small_disk: Path) -> None:
    with ActivationsCache.create(small_disk / "cache", fingerprint={}, spec=SPEC) as cache:
        cache.append(make_batch(["a"]))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    cache = ActivationsCache.open(small_disk / "cache")
    assert cache.read("embed", position="prompt_last").shape == (1, 8)
    assert verify(cache.path).problems == ()
    for work in (
        lambda: cache.append(make_batch(["b"])),
        lambda: cache.extend(SPEC),
        lambda: repair(cache.path),
    ):
        with pytest.raises(OSError, match=r"cannot write to .*cache: Read-only file system; "):
            work()
    with pytest.raises(ValueError, match=r"path: cannot write to .*: Read-only file system"):
        ActivationsCache.create(small_disk / "other", fingerprint={}, spec=SPEC)


def write_past_a_limit(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    cache = ActivationsCache.create(folder, fingerprint=FINGERPRINT, spec=SPEC)
    for ids in PLAN[:2]:
        cache.append(make_batch(ids))
    cache.flush()
    cache.append(make_batch([f"many-{row}" for row in range(400)]))
    with pytest.raises(OSError, match=r"cannot write to .*: File too large; 8 committed items"):
        cache.flush()


def test_a_file_that_may_not_grow_loses_nothing(tmp_path: Path) -> None:
    writer = start(write_past_a_limit, tmp_path / "cache")
    writer.join()
    assert writer.exitcode == 0
    cache = ActivationsCache.open(tmp_path / "cache", fingerprint=FINGERPRINT)
    assert cache.ids == PLAN[0] + PLAN[1]
    assert cache.read("embed", position="prompt_last").shape == (8, 8)


def test_a_program_that_ends_without_closing_keeps_everything(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.activations_cache.test_crashes import *;"
        "cache = ActivationsCache.create(sys.argv[1], fingerprint={}, spec=SPEC, shard_rows=10);"
        "[cache.append(make_batch(ids)) for ids in PLAN[:20]]"
    )
    folder = tmp_path / "cache"
    ended = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True
    )
    assert ended.stderr == ""
    assert ActivationsCache.open(folder).ids == tuple(i for ids in PLAN[:20] for i in ids)
    assert not (folder / LOCK_NAME).exists()
    assert verify(folder).problems == ()

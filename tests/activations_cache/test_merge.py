"""Several workers capture slices of one plan into folders of their own."""

from __future__ import annotations

import os
import signal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from activations_cache import ActivationsCache, merge, verify
from tests.activations_cache.cache_batches import (
    FINGERPRINT,
    SPEC,
    make_batch,
    make_plan,
    shards_of,
)

PLAN = make_plan(7)
IDS = tuple(item for batch in PLAN for item in batch)


def capture_slice(folder: Path, numbers: range | list[int], **options: Any) -> None:
    arguments = {"fingerprint": FINGERPRINT, "spec": SPEC, "plan": PLAN, "shard_rows": 8, **options}
    with ActivationsCache.create(folder, **arguments) as cache:
        for number in numbers:
            cache.append(make_batch(cache.plan[number], options=("yes",)))


def test_trap_26_workers_captures_merge_into_unique_and_complete_ids(tmp_path: Path) -> None:
    workers = [tmp_path / f"worker-{k}" for k in range(3)]
    processes = [
        get_context("fork").Process(target=capture_slice, args=(folder, range(k, 7, 3)))
        for k, folder in enumerate(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    merged = merge(workers, tmp_path / "merged")
    assert merged.ids == IDS
    assert merged.done == frozenset(IDS)
    check_unique_and_complete(tmp_path / "merged")
    capture_slice(tmp_path / "alone", range(7))
    alone = ActivationsCache.open(tmp_path / "alone", spec=merged.spec, plan=merged.plan)
    for site, layer, position in alone.cells():
        np.testing.assert_array_equal(
            merged.read(site, layer=layer, position=position),
            alone.read(site, layer=layer, position=position),
        )
    np.testing.assert_array_equal(merged.read_options("yes"), alone.read_options("yes"))
    assert not (tmp_path / "merged" / "writer.lock").exists()


@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        ([0, 1, 2, 3], [3, 4, 5, 6], {}, r"ids: 'item-003-0' \(batch 3\) is in .*a and in .*b"),
        ([0, 1, 2], [4, 5], {}, r"ids: 'item-003-0' \(batch 3\) is in none .* \(2 of 7 batches"),
        ([0, 1, 2], [3, 4, 5, 6], {"dtype": "float32"}, "dtype: cache .*b has float32"),
        ([0, 1, 2], [3, 4], {"plan": PLAN[:5]}, "plan: cache .*b has another one"),
        ([0, 1, 2], [3, 4, 5, 6], {"fingerprint": {"name": "x"}}, "fingerprint: cache .*b"),
    ],
    ids=["twice", "missing", "dtype", "plan", "fingerprint"],
)
def test_trap_26_what_would_be_twice_missing_or_mixed_is_refused(
    tmp_path: Path, first: list[int], second: list[int], options: dict[str, Any], message: str
) -> None:
    capture_slice(tmp_path / "a", first)
    capture_slice(tmp_path / "b", second, **options)
    with pytest.raises(ValueError, match=message):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_workers_without_a_plan_and_folders_named_twice_are_refused(tmp_path: Path) -> None:
    capture_slice(tmp_path / "a", range(7))
    ActivationsCache.create(tmp_path / "free", fingerprint=FINGERPRINT, spec=SPEC).close()
    for paths, message in (
        ([tmp_path / "free"], "plan: cache .*free was made without one"),
        ([tmp_path / "a", tmp_path / "a"], "paths: one of them is named twice"),
        ([], "paths: empty"),
    ):
        with pytest.raises(ValueError, match=message):
            merge(paths, tmp_path / "merged")
    with pytest.raises(ValueError, match=r"into: .*a is one of the workers' folders"):
        merge([tmp_path / "a"], tmp_path / "." / "a")


def test_a_flipped_bit_is_not_carried_over(tmp_path: Path) -> None:
    capture_slice(tmp_path / "a", range(7))
    shard = tmp_path / "a" / "shard-0-000002.h5"
    data = bytearray(shard.read_bytes())
    data[-3] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ValueError, match=r"shard .*a/shard-0-000002.h5 is damaged .*sha256"):
        merge([tmp_path / "a"], tmp_path / "merged")


def merge_and_die(paths: list[Path], into: Path) -> None:
    from activations_cache import journal

    append, lines = journal.append, iter(range(10))

    def dying(path: Path, shard: Any) -> None:
        if next(lines) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        append(path, shard)

    journal.append = dying
    merge(paths, into)


def check_unique_and_complete(folder: Path) -> None:
    """By the journal alone: every batch of the plan in one shard, once."""
    listed = [
        number
        for shard in shards_of(folder)
        for first, last in shard["batches"]
        for number in range(first, last + 1)
    ]
    assert sorted(listed) == list(range(len(PLAN)))
    assert ActivationsCache.open(folder).ids == IDS
    assert verify(folder).problems == ()


def test_trap_26_a_merge_that_was_killed_goes_on_and_a_worker_may_have_had_nothing_to_do(
    tmp_path: Path,
) -> None:
    workers = [tmp_path / name for name in "abc"]
    for folder, numbers in zip(workers, ([], [0, 2, 4, 6], [1, 3, 5]), strict=True):
        capture_slice(folder, numbers)
    process = get_context("fork").Process(target=merge_and_die, args=(workers, tmp_path / "merged"))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len(shards_of(tmp_path / "merged")) == 2
    for _ in range(2):
        assert merge(workers, tmp_path / "merged").ids == IDS
        check_unique_and_complete(tmp_path / "merged")

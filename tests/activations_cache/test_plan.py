"""The batch plan: which batches a cache takes, and in which order it gives them back."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activations_cache import ActivationsCache
from activations_cache.plan import from_ranges, to_ranges
from hooks.activations import CaptureSpec
from tests.activations_cache.cache_batches import (
    FINGERPRINT,
    SPEC,
    make_batch,
    make_plan,
    shards_of,
)

PLAN = make_plan(5)


def create(path: Path, plan: object = PLAN, **options: object) -> ActivationsCache:
    arguments = {"fingerprint": FINGERPRINT, "spec": SPEC, "plan": plan, **options}
    return ActivationsCache.create(path, **arguments)  # type: ignore[arg-type]


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(5)), shard_rows=st.integers(1, 9))
def test_trap_15_ids_and_values_follow_the_plan_whatever_order_batches_come_in(
    order: list[int], shard_rows: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        with create(Path(name) / "cache", shard_rows=shard_rows) as cache:
            for number in order:
                cache.append(make_batch(PLAN[number]))
        ids = tuple(item for batch in PLAN for item in batch)
        for reader in (cache, ActivationsCache.open(cache.path, plan=PLAN)):
            assert reader.ids == ids
            assert reader.done == frozenset(ids)
            whole = make_batch(ids)
            np.testing.assert_array_equal(
                reader.read("resid_post", layer=3, position="prompt_last"),
                whole.sites["resid_post"][:, 1, 1].bfloat16().float().numpy(),
            )


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (PLAN[1][:3], r"ids: 'item-001-0', .* are no batch of the cache's plan.* in batch 1"),
        (PLAN[1][::-1], r"ids: .* are no batch of the cache's plan"),
        (PLAN[1] + PLAN[2], r"ids: .* are no batch of the cache's plan"),
        ((*PLAN[1][:3], "new"), r"ids: 'new' is not in the cache's plan; run the plan's own"),
        ((), r"ids: an empty batch is not in the cache's plan"),
        (PLAN[0], r"ids: 'item-000-0' is in the cache already; .* done=cache.done"),
    ],
)
def test_trap_15_a_batch_that_is_not_in_the_plan_is_refused(
    tmp_path: Path, ids: tuple[str, ...], message: str
) -> None:
    with create(tmp_path / "cache") as cache:
        cache.append(make_batch(PLAN[0]))
        with pytest.raises(ValueError, match=message):
            cache.append(make_batch(ids))
    assert ActivationsCache.open(tmp_path / "cache").ids == PLAN[0]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ([("a",), ()], "plan: a batch is empty"),
        ([], "plan: a batch is empty"),
        ([("a", "b"), ("a",)], "plan: id 'a' comes 2 times"),
        ([("a", 3)], "plan: 3 is no id"),
        (["abc"], "plan: 'abc' is not a batch"),
    ],
)
def test_what_is_no_plan(tmp_path: Path, plan: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(tmp_path / "cache", plan)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ([*PLAN, ("x",)], r"plan: .*1 ids are only here, for example 'x'"),
        (PLAN[:4], r"4 ids are only there, for example 'item-004-0'"),
        (
            [PLAN[1], PLAN[0], *PLAN[2:]],
            r"batch 0 is 'item-000-0' to .* there and 'item-001-0' to .* here",
        ),
        ([PLAN[0] + PLAN[1], *PLAN[2:]], r"batch 0 is .*\(4 items\) there and .*\(8 items\) here"),
    ],
)
def test_trap_15_another_plan_is_refused(tmp_path: Path, plan: object, message: str) -> None:
    create(tmp_path / "cache").close()
    ActivationsCache.open(tmp_path / "cache", plan=PLAN)
    with pytest.raises(ValueError, match=message) as refusal:
        ActivationsCache.open(tmp_path / "cache", plan=plan)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)
    create(tmp_path / "free", plan=None).close()
    with pytest.raises(ValueError, match=r"plan: cache .* was made without one"):
        ActivationsCache.open(tmp_path / "free", plan=PLAN)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (CaptureSpec(("resid_post",), SPEC.layers, SPEC.positions), "sites only there: embed"),
        (CaptureSpec(SPEC.sites, (1, 2, 3, 4, 5), SPEC.positions), "layers only here: 2, 5"),
        (
            CaptureSpec(SPEC.sites, SPEC.layers, ("prompt_last", "quote_last")),
            "positions only here: quote_last; positions only there: instruction_last",
        ),
        (CaptureSpec(SPEC.sites, "all", SPEC.positions), "layers are .* there and 'all' here"),
    ],
)
def test_another_spec_is_refused_naming_what_differs(
    tmp_path: Path, spec: CaptureSpec, message: str
) -> None:
    create(tmp_path / "cache").close()
    ActivationsCache.open(tmp_path / "cache", spec=SPEC)
    with pytest.raises(ValueError, match=rf"spec: .*{message}.*extend it"):
        ActivationsCache.open(tmp_path / "cache", spec=spec)


def test_trap_16_activations_of_another_processing_are_not_mixed_in(tmp_path: Path) -> None:
    create(tmp_path / "cache").close()
    folded = {**FINGERPRINT, "processing": "folded"}
    with pytest.raises(ValueError, match="processing is 'raw' there and 'folded' here"):
        ActivationsCache.open(tmp_path / "cache", fingerprint=folded)


def test_the_journal_lists_batches_by_number_and_the_plan_is_written_once(tmp_path: Path) -> None:
    with create(tmp_path / "cache", shard_rows=8) as cache:
        written = (tmp_path / "cache" / "plan.json").stat().st_mtime_ns
        for batch in PLAN:
            cache.append(make_batch(batch))
    assert (tmp_path / "cache" / "plan.json").stat().st_mtime_ns == written
    assert json.loads((tmp_path / "cache" / "plan.json").read_text())["batches"] == [
        list(batch) for batch in PLAN
    ]
    assert [line["batches"] for line in shards_of(cache.path)] == [[[0, 1]], [[2, 3]], [[4, 4]]]
    assert "ids" not in shards_of(cache.path)[0]


@given(st.lists(st.integers(0, 30), unique=True))
def test_ranges_come_back(numbers: list[int]) -> None:
    assert from_ranges(to_ranges(numbers), 31) == tuple(numbers)


@pytest.mark.parametrize("ranges", [[[0, 6]], [[5, 3 * 10**8]], [[3, 2]], [[0, 5], [0, 5]]])
def test_ranges_are_not_counted_out_beyond_the_plan(ranges: list[list[int]]) -> None:
    with pytest.raises(ValueError, match=r"field batches: .* the 6 of the plan"):
        from_ranges(ranges, 6)


def test_a_plan_that_is_not_the_one_written_is_refused(tmp_path: Path) -> None:
    create(tmp_path / "cache").close()
    path = tmp_path / "cache" / "plan.json"
    path.write_text(path.read_text().replace("item-000-1", "item-000-9"))
    with pytest.raises(ValueError, match=r"plan.json is damaged .*sha256"):
        ActivationsCache.open(tmp_path / "cache")
    path.unlink()
    with pytest.raises(ValueError, match=r"plan.json cannot be read"):
        ActivationsCache.open(tmp_path / "cache")

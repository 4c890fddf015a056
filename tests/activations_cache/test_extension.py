"""Adding sites, layers and positions to a cache that holds some already."""

from __future__ import annotations

import os
import signal
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from activations_cache import ActivationsCache, verify
from activations_cache.parts import added_parts, cells_of, union
from hooks.activations import Activations, CaptureSpec
from tests.activations_cache.cache_batches import FINGERPRINT, make_plan, shards_of

ALL_SITES = ("embed", "resid_post", "mlp_out", "final_norm")
ALL_POSITIONS = ("instruction_last", "prompt_last", "quote_last")
SMALL = CaptureSpec(("resid_post",), (1,), ("prompt_last",))
PLAN = make_plan(6)

specs = st.builds(
    CaptureSpec,
    sites=st.lists(st.sampled_from(ALL_SITES), min_size=1, unique=True).map(tuple),
    layers=st.sets(st.integers(0, 4), min_size=1).map(lambda layers: tuple(sorted(layers))),
    positions=st.lists(st.sampled_from(ALL_POSITIONS), min_size=1, unique=True).map(tuple),
)


def value(item: str, site: str, layer: int | None, position: str) -> float:
    """A number that bfloat16 holds exactly and that tells cells and items apart."""
    numbers = (sum(item.encode()), ALL_SITES.index(site), layer or 0, ALL_POSITIONS.index(position))
    return float(torch.tensor(hash(numbers) % 9973).bfloat16())


def batch_of(ids: tuple[str, ...], spec: CaptureSpec, options: bool = False) -> Activations:
    layers = spec.layers
    assert not isinstance(layers, str)
    sites = {}
    for site in spec.sites:
        rows = [
            [
                [[value(item, site, layer, position)] * 4 for position in spec.positions]
                for layer in ((None,) if site in ("embed", "final_norm") else layers)
            ]
            for item in ids
        ]
        sites[site] = torch.tensor(rows)
    logprobs = {"yes": torch.arange(len(ids)).float()} if options else {}
    return Activations(ids, sites, layers, spec.positions, logprobs)


def check_cells(cache: ActivationsCache) -> None:
    for site, layer, position in cache.cells():
        got = cache.read(site, layer=layer, position=position)
        expected = [[value(item, site, layer, position)] * 4 for item in cache.ids]
        np.testing.assert_array_equal(got, np.array(expected, dtype=np.float32))


@settings(max_examples=300, deadline=None)
@given(specs, specs)
def test_added_parts_are_exactly_the_new_cells(old: CaptureSpec, more: CaptureSpec) -> None:
    wanted = union([old, more])
    parts = added_parts(old, wanted)
    assert len(parts) <= 3
    cells = [cell for part in (old, *parts) for cell in cells_of(part)]
    assert len(cells) == len(set(cells))
    assert set(cells) == set(cells_of(wanted))
    assert set(cells_of(old)) | set(cells_of(more)) <= set(cells_of(wanted))


@settings(max_examples=30, deadline=None)
@given(
    chain=st.lists(specs, min_size=1, max_size=4),
    planned=st.booleans(),
    shard_rows=st.integers(1, 30),
)
def test_a_cache_extended_step_by_step_holds_every_cell_once(
    chain: list[CaptureSpec], planned: bool, shard_rows: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        with ActivationsCache.create(
            Path(name) / "cache",
            fingerprint=FINGERPRINT,
            spec=chain[0],
            plan=PLAN if planned else None,
            shard_rows=shard_rows,
        ) as cache:
            for spec in chain:
                cache.extend(spec)
                for ids in PLAN:
                    if cache.missing(ids):
                        cache.append(batch_of(ids, cache.spec))
        opened = ActivationsCache.open(cache.path, spec=cache.spec)
        for spec in chain:
            assert set(cells_of(spec)) <= set(opened.cells())
        assert opened.done == {item for batch in PLAN for item in batch}
        assert opened.cells() == cells_of(opened.spec)
        check_cells(opened)
        assert verify(opened.path).problems == ()
        n_stored = 0
        for shard in shards_of(opened.path):
            with h5py.File(opened.path / shard["file"]) as file:
                n_stored += sum(data.size for data in file["activations"].values())
        assert n_stored == len(cells_of(opened.spec)) * len(opened.ids) * 4


def test_an_unfinished_extension_reads_old_cells_and_refuses_new_ones(tmp_path: Path) -> None:
    larger = CaptureSpec(("resid_post", "embed"), (1, 2), ("prompt_last", "quote_last"))
    with ActivationsCache.create(
        tmp_path / "cache", fingerprint=FINGERPRINT, spec=SMALL, plan=PLAN
    ) as cache:
        for ids in PLAN:
            cache.append(batch_of(ids, SMALL, options=True))
        cache.extend(larger)
        assert cache.spec == larger
        assert cache.done == frozenset()
        cache.append(batch_of(PLAN[4], larger, options=True))
    for reader in (cache, ActivationsCache.open(tmp_path / "cache", spec=larger)):
        assert len(reader.ids) == 24
        assert reader.done == frozenset(PLAN[4])
        assert reader.cells() == [("resid_post", 1, "prompt_last")]
        check_cells(reader)
        assert reader.read_options("yes").tolist() == [0, 1, 2, 3] * 6
        (one,) = reader.iterate(SMALL, rows=99)
        assert one.ids == reader.ids
        for read in (
            lambda reader=reader: reader.read("embed", position="prompt_last"),
            lambda reader=reader: reader.iterate(),
        ):
            with pytest.raises(ValueError, match=r"holds it for 4 of 24 items; .*done=cache.done"):
                read()
    (problem,) = verify(tmp_path / "cache").problems
    assert problem.kind == "incomplete"
    assert problem.n_items == 20
    with pytest.raises(
        ValueError, match=r"sites: the cache wants .*, embed, this batch has resid_post;"
    ):
        cache.append(batch_of(PLAN[0], SMALL))
    wider = CaptureSpec(larger.sites, (1, 2, 3), larger.positions)
    with pytest.raises(ValueError, match=r"layers: the cache wants 1, 2, this batch has 1, 2, 3"):
        cache.append(batch_of(PLAN[0], wider))
    cache.close()


def test_new_items_can_come_while_an_extension_is_open(tmp_path: Path) -> None:
    larger = CaptureSpec(("resid_post",), (1, 2), ("prompt_last",))
    with ActivationsCache.create(tmp_path / "cache", fingerprint=FINGERPRINT, spec=SMALL) as cache:
        cache.append(batch_of(("a", "b"), SMALL))
        cache.extend(larger)
        cache.append(batch_of(("c",), larger))
        assert cache.ids == ("a", "b", "c")
        assert cache.cells() == [("resid_post", 1, "prompt_last")]
        # An old item and a new one in a batch: the old one's old cells are not stored again.
        cache.append(batch_of(("d", "a"), larger))
        cache.append(batch_of(("b",), larger))
    opened = ActivationsCache.open(tmp_path / "cache")
    assert opened.ids == ("a", "b", "c", "d")
    assert opened.cells() == cells_of(larger)
    check_cells(opened)
    assert sum(shard["items"] for shard in shards_of(opened.path)) == 8


def capture_extended(folder: Path, spec: CaptureSpec, die_at_line: int | None) -> None:
    from activations_cache import journal

    append, lines = journal.append, iter(range(1, 100))

    def dying(path: Path, shard: Any) -> None:
        if next(lines) == die_at_line:
            os.kill(os.getpid(), signal.SIGKILL)
        append(path, shard)

    journal.append = dying
    with ActivationsCache.open(folder, plan=PLAN) as cache:
        cache.extend(spec)
        done = cache.done
        for ids in PLAN:
            if not done.issuperset(ids):
                cache.append(batch_of(ids, cache.spec))


@pytest.mark.parametrize("die_at_line", [1, 2, 4, 7, 9])
def test_an_extension_that_was_killed_goes_on(tmp_path: Path, die_at_line: int) -> None:
    larger = CaptureSpec(("resid_post", "embed"), (1, 2), ("prompt_last", "quote_last"))
    with ActivationsCache.create(
        tmp_path / "cache", fingerprint=FINGERPRINT, spec=SMALL, plan=PLAN, shard_rows=8
    ) as cache:
        for ids in PLAN:
            cache.append(batch_of(ids, SMALL))
    process = get_context("fork").Process(
        target=capture_extended, args=(tmp_path / "cache", larger, die_at_line)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    begun = ActivationsCache.open(tmp_path / "cache", spec=larger)
    assert len(begun.done) < 24
    check_cells(begun)
    process = get_context("fork").Process(
        target=capture_extended, args=(tmp_path / "cache", larger, None)
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    ended = ActivationsCache.open(tmp_path / "cache", spec=larger)
    assert ended.cells() == cells_of(larger)
    check_cells(ended)
    assert verify(tmp_path / "cache").problems == ()


def test_what_cannot_be_joined(tmp_path: Path) -> None:
    with ActivationsCache.create(tmp_path / "cache", fingerprint={}, spec=SMALL) as cache:
        with pytest.raises(ValueError, match='layers: "all" cannot be joined with numbers'):
            cache.extend(CaptureSpec())
        before = (tmp_path / "cache" / "manifest.json").read_bytes()
        cache.extend(SMALL)
        assert (tmp_path / "cache" / "manifest.json").read_bytes() == before
    with (
        ActivationsCache.create(tmp_path / "b", fingerprint={"n_layers": 3}, spec=SMALL) as cache,
        pytest.raises(ValueError, match="layers: 3 does not exist"),
    ):
        cache.extend(CaptureSpec(layers=(3,)))

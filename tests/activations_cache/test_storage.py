"""Storage: iteration over more than fits, optional compression, the checks on bits."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from activations_cache import ActivationsCache, verify
from activations_cache.encoding import FORMATS, StorageDType, as_bits, decode_into, is_finite
from hooks.activations import CaptureSpec
from tests.activations_cache.cache_batches import FINGERPRINT, SPEC, make_batch, make_plan

PLAN = make_plan(5)
DTYPES = ("bfloat16", "float32", "float16")


def make_cache(folder: Path, **options: Any) -> ActivationsCache:
    arguments = {"fingerprint": FINGERPRINT, "spec": SPEC, "shard_rows": 8, **options}
    with ActivationsCache.create(folder, **arguments) as cache:
        for batch in PLAN:
            cache.append(make_batch(batch, options=("yes",)))
    return ActivationsCache.open(folder)


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32), st.sampled_from(DTYPES))
def test_a_number_is_stored_as_torch_casts_it_and_is_called_finite_as_torch_calls_it(
    value: float, dtype: StorageDType
) -> None:
    cast = torch.tensor([1.0, value, -2.5]).to(FORMATS[dtype].values)
    bits = as_bits(cast, dtype)
    result = np.empty(3, dtype=np.float32)
    decode_into(result, bits.view(FORMATS[dtype].stored), dtype)
    np.testing.assert_array_equal(result, cast.float().numpy())
    assert is_finite(bits, dtype) == bool(torch.isfinite(cast).all())


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 30),
    sites=st.lists(st.sampled_from(SPEC.sites), min_size=1, unique=True),
    layers=st.lists(st.sampled_from((1, 3, 4)), min_size=1, unique=True),
    positions=st.lists(st.sampled_from(SPEC.positions), min_size=1, unique=True),
    dtype=st.sampled_from(DTYPES),
)
def test_iterating_yields_all_items_in_order_and_the_cells_asked_for(
    rows: int, sites: list[str], layers: list[int], positions: list[str], dtype: StorageDType
) -> None:
    spec = CaptureSpec(tuple(sites), tuple(layers), tuple(positions))
    with tempfile.TemporaryDirectory() as name:
        cache = make_cache(Path(name) / "cache", dtype=dtype)
        records = list(cache.iterate(spec, rows=rows))
    ids = tuple(item for batch in PLAN for item in batch)
    assert tuple(item for record in records for item in record.ids) == ids
    assert {len(record) for record in records[:-1]} <= {rows}
    whole = make_batch(ids, options=("yes",))
    picked = [SPEC.positions.index(position) for position in positions]
    for site in sites:
        axis = [0] if site == "embed" else [SPEC.layers.index(layer) for layer in layers]
        expected = whole.sites[site][:, axis][:, :, picked].to(FORMATS[dtype].values).float()
        torch.testing.assert_close(
            torch.cat([record.sites[site] for record in records]), expected, rtol=0, atol=0
        )
    logprobs = torch.cat([record.option_logprobs["yes"] for record in records])
    torch.testing.assert_close(logprobs, whole.option_logprobs["yes"], rtol=0, atol=0)


def test_iterating_can_feed_another_cache_and_refuses_what_is_not_there(tmp_path: Path) -> None:
    cache = make_cache(tmp_path / "a", dtype="float32")
    with ActivationsCache.create(
        tmp_path / "b", fingerprint=FINGERPRINT, spec=SPEC, dtype="float32"
    ) as copy:
        for record in cache.iterate(rows=7):
            copy.append(record)
    assert copy.ids == cache.ids
    for site, layer, position in cache.cells():
        np.testing.assert_array_equal(
            copy.read(site, layer=layer, position=position),
            cache.read(site, layer=layer, position=position),
        )
    with pytest.raises(ValueError, match=r"layer: .* 2; it has 1, 3, 4"):
        cache.iterate(CaptureSpec(("resid_post",), (1, 2), ("prompt_last",)))
    with pytest.raises(ValueError, match="rows: 0 is not at least 1"):
        cache.iterate(rows=0)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_cache_holds_the_same_in_less(tmp_path: Path, compression: str) -> None:
    pytest.importorskip("hdf5plugin")
    plain = make_cache(tmp_path / "plain", dtype="float32")
    small = make_cache(tmp_path / "small", dtype="float32", compression=compression)
    for site, layer, position in plain.cells():
        for ids in (None, ["item-003-1", "item-000-2"]):
            np.testing.assert_array_equal(
                small.read(site, layer=layer, position=position, ids=ids),
                plain.read(site, layer=layer, position=position, ids=ids),
            )
    for ours, theirs in zip(small.iterate(rows=6), plain.iterate(rows=6), strict=True):
        torch.testing.assert_close(dict(ours.sites), dict(theirs.sites), rtol=0, atol=0)
    assert verify(small.path).problems == ()
    with h5py.File(small.path / "shard-0-000000.h5") as file:
        assert file["activations/resid_post"].chunks == (1, 1, 8, 8)


def test_zeros_compress(tmp_path: Path) -> None:
    pytest.importorskip("hdf5plugin")
    batch = make_batch([f"{i}" for i in range(64)], d_model=128)
    for states in batch.sites.values():
        states.zero_()
    sizes = []
    for compression in (None, "zstd"):
        with ActivationsCache.create(
            tmp_path / str(compression),
            fingerprint=FINGERPRINT,
            spec=SPEC,
            compression=compression,  # type: ignore[arg-type]
        ) as cache:
            cache.append(batch)
        sizes.append((cache.path / "shard-0-000000.h5").stat().st_size)
    assert sizes[1] < sizes[0] / 4


def test_compression_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_cache(tmp_path / "plain")
    manifest = made.path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "compression": "zstd"}))
    journal = made.path / "shards.jsonl"
    lines = [{**json.loads(line), "offsets": None} for line in journal.read_text().splitlines()]
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    cache = ActivationsCache.open(made.path)
    for work in (
        lambda: cache.read("embed", position="prompt_last"),
        lambda: make_cache(tmp_path / "new", compression="zstd"),
    ):
        with pytest.raises(
            ImportError, match=r"hdf5plugin; pip install 'selfprobe\[compression\]'"
        ):
            work()
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="compression: unknown 'gzip'; use None, zstd or lz4"):
        make_cache(tmp_path / "new", compression="gzip")

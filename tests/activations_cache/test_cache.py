from __future__ import annotations

import json
import multiprocessing
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from activations_cache import ActivationsCache, NonFiniteError
from activations_cache.encoding import StorageDType
from hooks.activations import Activations, CaptureSpec
from tests.activations_cache.cache_batches import (
    FINGERPRINT,
    SPEC,
    make_batch,
    make_plan,
    shards_of,
)


def create(path: Path, **options: object) -> ActivationsCache:
    arguments = {"fingerprint": FINGERPRINT, "spec": SPEC, **options}
    return ActivationsCache.create(path, **arguments)  # type: ignore[arg-type]


def stored_value(values: torch.Tensor, dtype: StorageDType) -> np.ndarray:
    """What a cache should give back, by torch's own cast."""
    return values.to(getattr(torch, dtype)).to(torch.float32).numpy()


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    shard_rows=st.integers(1, 12),
    dtype=st.sampled_from(["bfloat16", "float32", "float16"]),
    seed=st.integers(0, 99),
)
def test_every_column_comes_back_bit_for_bit(
    sizes: list[int], shard_rows: int, dtype: StorageDType, seed: int
) -> None:
    batches = [
        make_batch([f"{b}/{row}" for row in range(size)], options=("yes", "no"))
        for b, size in enumerate(sizes)
    ]
    ids = [item for batch in batches for item in batch.ids]
    shuffled = list(np.random.default_rng(seed).permutation(ids)) if ids else []
    with tempfile.TemporaryDirectory() as folder:
        with create(Path(folder) / "cache", dtype=dtype, shard_rows=shard_rows) as cache:
            for batch in batches:
                cache.append(batch)
        reopened = ActivationsCache.open(cache.path, fingerprint=FINGERPRINT)
        assert reopened.ids == tuple(ids)
        assert len(reopened) == len(ids)
        order = [ids.index(item) for item in shuffled]
        for site, layer, position in reopened.cells() if ids else []:
            axes = (
                (0 if layer is None else SPEC.layers.index(layer)),
                SPEC.positions.index(position),
            )
            values = torch.cat([batch.sites[site][:, *axes] for batch in batches])
            expected = stored_value(values, dtype)
            got = reopened.read(site, layer=layer, position=position)
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))
            some = reopened.read(site, layer=layer, position=position, ids=shuffled)
            np.testing.assert_array_equal(some, expected[order])
        if ids:
            yes = torch.cat([batch.option_logprobs["yes"] for batch in batches]).numpy()
            np.testing.assert_array_equal(reopened.read_options("yes", shuffled), yes[order])


def test_storage_is_what_the_format_says(tmp_path: Path) -> None:
    batch = make_batch(["a", "ü"], options=("yes", "no"))
    with create(tmp_path / "cache") as cache:
        cache.append(batch)
    manifest = json.loads((tmp_path / "cache" / "manifest.json").read_text())
    assert manifest["schema"] == 2
    assert manifest["fingerprint"] == FINGERPRINT
    (shard,) = shards_of(tmp_path / "cache")
    assert shard["ids"] == ["a", "ü"]
    with h5py.File(tmp_path / "cache" / shard["file"]) as file:
        states = file["activations/resid_post"]
        assert states.shape == (3, 2, 2, 8)
        assert states.chunks is None
        assert states.id.get_offset() == shard["offsets"]["resid_post"]
        assert states.dtype == np.uint16
        assert states.attrs["dtype"] == "bfloat16"
        assert states.id.get_storage_size() == batch.sites["resid_post"].numel() * 2
        assert [item.decode() for item in file["ids"]] == ["a", "ü"]
        assert list(file["option_logprobs"].attrs["names"]) == ["no", "yes"]
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [
        "manifest.json",
        "shard-0-000000.h5",
        "shards.jsonl",
    ]


def test_trap_15_a_shard_is_whole_batches(tmp_path: Path) -> None:
    with create(tmp_path / "cache", shard_rows=6) as cache:
        for ids in make_plan(4):
            cache.append(make_batch(ids))
    assert [shard["items"] for shard in shards_of(tmp_path / "cache")] == [8, 8]


def test_a_buffered_batch_does_not_keep_the_array_it_is_a_view_of(tmp_path: Path) -> None:
    for dtype in ("bfloat16", "float32"):
        layer_output = torch.randn(2, 3, 64, 8)
        view = layer_output[:, :, :2]
        batch = Activations(("a", "b"), {"resid_post": view}, (1, 3, 4), SPEC.positions)
        spec = CaptureSpec(("resid_post",), SPEC.layers, SPEC.positions)
        cache = create(tmp_path / dtype, spec=spec, dtype=dtype)
        before = stored_value(view[:, 0, 1], dtype).copy()  # type: ignore[arg-type]
        cache.append(batch)
        layer_output.zero_()
        got = cache.read("resid_post", layer=1, position="prompt_last")
        np.testing.assert_array_equal(got, before)
        cache.close()


def test_what_was_appended_can_be_read_at_once_and_survives_a_cache_that_is_not_closed(
    tmp_path: Path,
) -> None:
    cache = create(tmp_path / "cache")
    cache.append(make_batch(["a"]))
    assert cache.missing(["b", "a"]) == ["b"]
    assert cache.read("embed", position="prompt_last").shape == (1, 8)
    cache.append(make_batch(["b"]))
    del cache
    assert ActivationsCache.open(tmp_path / "cache").ids == ("a", "b")


def test_batches_before_an_exception_are_kept(tmp_path: Path) -> None:
    def capture_that_fails() -> None:
        with create(tmp_path / "cache") as cache:
            cache.append(make_batch(["a"]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        capture_that_fails()
    assert ActivationsCache.open(tmp_path / "cache").ids == ("a",)


def test_layers_come_from_the_fingerprint_or_from_the_first_batch(tmp_path: Path) -> None:
    spec = CaptureSpec(("resid_post",), "all", ("prompt_last",))
    known = create(tmp_path / "known", spec=spec, fingerprint={"n_layers": 3})
    assert known.cells() == [("resid_post", layer, "prompt_last") for layer in range(3)]
    with create(tmp_path / "unknown", spec=spec) as unknown:
        assert unknown.cells() == []
        unknown.append(make_batch(["a"], CaptureSpec(("resid_post",), (0, 1), ("prompt_last",))))
        assert unknown.spec.layers == (0, 1)
    assert ActivationsCache.open(tmp_path / "unknown").spec.layers == (0, 1)
    with pytest.raises(ValueError, match="layers: 7 does not exist"):
        create(tmp_path / "x", spec=CaptureSpec(layers=(7,)), fingerprint={"n_layers": 3})
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("batch", "field"),
    [
        (make_batch(["b"], CaptureSpec(("embed",), SPEC.layers, SPEC.positions)), "sites"),
        (make_batch(["b"], CaptureSpec(SPEC.sites, (1, 2, 4), SPEC.positions)), "layers"),
        (make_batch(["b"], CaptureSpec(SPEC.sites, SPEC.layers, ("prompt_last",))), "positions"),
        (make_batch(["b"], d_model=4), "d_model"),
        (make_batch(["b"], options=["yes"]), "option_logprobs"),
        (make_batch(["a"]), "ids: 'a' is in the cache already"),
        (make_batch(["b", "b"]), "ids: 'b' comes twice"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_by_field(
    tmp_path: Path, batch: Activations, field: str
) -> None:
    with create(tmp_path / "cache") as cache:
        cache.append(make_batch(["a"]))
        with pytest.raises(ValueError, match=f"^{field}"):
            cache.append(batch)
        cache.append(make_batch(["c"]))
    assert ActivationsCache.open(tmp_path / "cache").ids == ("a", "c")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"site": "mlp_out"}, r"site: .* 'mlp_out'; it has resid_post, embed"),
        ({"layer": 2}, r"layer: .* 2; it has 1, 3, 4"),
        ({"layer": None}, r"layer: .* None; it has 1, 3, 4"),
        ({"site": "embed"}, r"layer: .* 1; it has None"),
        ({"position": "quote_last"}, r"position: .*; it has instruction_last, prompt_last"),
        ({"ids": ["a", "z"]}, r"ids: .* 'z' \(1 of 2 are unknown\); it has 1 items.* 'a'"),
    ],
)
def test_reading_what_is_not_there_names_what_is(
    tmp_path: Path, arguments: dict[str, object], message: str
) -> None:
    with create(tmp_path / "cache") as cache:
        cache.append(make_batch(["a"]))
        wanted = {"site": "resid_post", "layer": 1, "position": "prompt_last", **arguments}
        with pytest.raises(ValueError, match=message):
            cache.read(**wanted)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"option: .* 'yes'; it has none"):
            cache.read_options("yes")


@pytest.mark.parametrize(
    ("value", "dtype", "advice"),
    [
        (float("inf"), "bfloat16", "run the model in bfloat16 or float32"),
        (float("nan"), "float32", "run the model in bfloat16 or float32"),
        (3.4e38, "bfloat16", 'make the cache with dtype="float32"'),
        (-7e4, "float16", 'make the cache with dtype="bfloat16" or "float32"'),
        (65_520.0, "float16", "is too large for float16"),
        (float("-inf"), "float16", "run the model in bfloat16 or float32"),
    ],
)
def test_trap_10_a_value_that_is_not_finite_is_refused_and_named(
    tmp_path: Path, value: float, dtype: StorageDType, advice: str
) -> None:
    batch = make_batch(["a", "b"])
    batch.sites["resid_post"][1, 2, 0, 5] = value
    with create(tmp_path / "cache", dtype=dtype) as cache:
        with pytest.raises(NonFiniteError) as refusal:
            cache.append(batch)
        assert cache.ids == ()
    where = "item 'b', site resid_post, layer 4, position instruction_last: "
    assert str(refusal.value).startswith(where)
    assert "in dimension 5" in str(refusal.value)
    assert advice in str(refusal.value)


def test_trap_10_values_beyond_float16_are_kept_by_default(tmp_path: Path) -> None:
    batch = make_batch(["a"])
    batch.sites["resid_post"][0, 0, 1, 0] = 70_000.0
    with create(tmp_path / "cache") as cache:
        cache.append(batch)
    value = cache.read("resid_post", layer=1, position="prompt_last")[0, 0]
    assert value == torch.tensor(70_000.0).to(torch.bfloat16).item() == 70_144.0


def test_another_dtype_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dtype: 'int8' cannot be stored; use one of bfloat16"):
        create(tmp_path / "cache", dtype="int8")
    assert not (tmp_path / "cache").exists()


def test_another_fingerprint_is_refused_naming_the_fields(tmp_path: Path) -> None:
    create(tmp_path / "cache").close()
    other = {**FINGERPRINT, "weights_sha256": "cd34", "template_sha256": "ef"}
    del other["processing"]
    with pytest.raises(ValueError, match="fingerprint") as refusal:
        ActivationsCache.open(tmp_path / "cache", fingerprint=other)
    message = str(refusal.value)
    assert "weights_sha256 is 'ab12' there and 'cd34' here" in message
    assert "template_sha256 is '(absent)' there" in message
    assert "processing is 'raw' there and '(absent)' here" in message
    assert "name is" not in message


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no activations cache at"):
        ActivationsCache.open(tmp_path / "absent")
    assert not ActivationsCache.exists(tmp_path / "cache")
    create(tmp_path / "cache").close()
    assert ActivationsCache.exists(tmp_path / "cache")
    with pytest.raises(ValueError, match="holds a cache already"):
        create(tmp_path / "cache")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not empty"):
        create(tmp_path)
    with pytest.raises(ValueError, match="cannot write to"):
        create(tmp_path / "notes.txt" / "cache")
    manifest = tmp_path / "cache" / "manifest.json"
    document = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**document, "schema": 99}))
    with pytest.raises(ValueError, match=r"schema: .* is version 99"):
        ActivationsCache.open(tmp_path / "cache")
    manifest.write_text(manifest.read_text()[:40])
    with pytest.raises(ValueError, match="is damaged"):
        ActivationsCache.open(tmp_path / "cache")


def open_handles() -> int:
    """How many objects of HDF5 this process holds open."""
    return int(h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_ALL))


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_trap_14_a_fork_reads_and_does_not_disturb_the_writer(
    tmp_path: Path, compression: str | None
) -> None:
    if compression:
        pytest.importorskip("hdf5plugin")
    cache = create(tmp_path / "cache", compression=compression)
    batch = make_batch(["a", "b"], options=("yes",))
    cache.append(batch)
    before = open_handles()

    def read() -> None:
        np.testing.assert_array_equal(
            cache.read("resid_post", layer=3, position="prompt_last"),
            stored_value(batch.sites["resid_post"][:, 1, 1], "bfloat16"),
        )
        np.testing.assert_array_equal(cache.read_options("yes"), batch.option_logprobs["yes"])
        # A handle that outlives the call would be shared with every process forked later.
        assert open_handles() == before

    def read_in_fork() -> None:
        read()
        with pytest.raises(ValueError, match="is being written by process"):
            cache.append(make_batch(["c"], options=("yes",)))
        cache.close()

    read()
    forks = [multiprocessing.get_context("fork").Process(target=read_in_fork) for _ in range(2)]
    for fork in forks:
        fork.start()
    read()
    for fork in forks:
        fork.join()
        assert fork.exitcode == 0
    cache.append(make_batch(["d"], options=("yes",)))
    cache.close()
    assert ActivationsCache.open(tmp_path / "cache").ids == ("a", "b", "d")

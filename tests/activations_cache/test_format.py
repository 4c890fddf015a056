"""`docs/cache-format.md` is true: its code reads a cache, and so do its formulas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from activations_cache import ActivationsCache
from activations_cache.encoding import StorageDType
from hooks.activations import CaptureSpec
from tests.activations_cache.cache_batches import (
    FINGERPRINT,
    SPEC,
    make_batch,
    make_plan,
    shards_of,
)

PAGE = Path(__file__).parents[2] / "docs" / "cache-format.md"
PLAN = make_plan(5)


@pytest.fixture(scope="module")
def read_column() -> Callable[..., tuple[list[str], np.ndarray]]:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)
    function: Callable[..., tuple[list[str], np.ndarray]] = names["read_column"]
    return function


def make_cache(folder: Path, **options: Any) -> ActivationsCache:
    """Written out of turn and extended, in several shards."""
    arguments = {"fingerprint": FINGERPRINT, "spec": SPEC, "shard_rows": 8, **options}
    with ActivationsCache.create(folder, **arguments) as cache:
        for number in (3, 0, 1, 4, 2):
            cache.append(make_batch(PLAN[number], options=("yes",)))
        cache.extend(CaptureSpec(("resid_post", "final_norm"), (0, 1), ("quote_last",)))
        for batch in PLAN:
            cache.append(make_batch(batch, cache.spec, options=("yes",)))
    return ActivationsCache.open(folder)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float16"])
@pytest.mark.parametrize("plan", [PLAN, None], ids=["plan", "no plan"])
def test_the_code_on_the_page_reads_what_the_cache_reads(
    tmp_path: Path, read_column: Callable[..., Any], dtype: StorageDType, plan: object
) -> None:
    cache = make_cache(tmp_path / "cache", dtype=dtype, plan=plan)
    assert len(cache.cells()) == (4 + 1 + 1) * 3
    for site, layer, position in cache.cells():
        ids, values = read_column(cache.path, site, layer, position)
        assert tuple(ids) == cache.ids
        np.testing.assert_array_equal(values, cache.read(site, layer=layer, position=position))


def test_the_formula_on_the_page_finds_a_number_without_hdf5(tmp_path: Path) -> None:
    batch = make_batch([f"item-{i}" for i in range(8)], d_model=256)
    with ActivationsCache.create(tmp_path / "cache", fingerprint=FINGERPRINT, spec=SPEC) as cache:
        cache.append(batch)
    (shard,) = shards_of(cache.path)
    data = (cache.path / shard["file"]).read_bytes()
    for layer, position, row, k in ((0, 0, 0, 0), (2, 1, 5, 3), (2, 1, 7, 255)):
        index = ((layer * 2 + position) * 8 + row) * 256 + k
        place = shard["offsets"]["resid_post"] + index * 2
        stored = int.from_bytes(data[place : place + 2], "little")
        value = np.array([stored << 16], dtype="<u4").view("<f4")[0]
        assert value == batch.sites["resid_post"][row, layer, position, k].bfloat16().item()
    assert all(offset % 4096 == 0 for offset in shard["offsets"].values())


def test_the_page_names_every_field_and_file(tmp_path: Path) -> None:
    cache = make_cache(tmp_path / "cache", plan=PLAN)
    page = PAGE.read_text(encoding="utf-8")
    manifest = json.loads((cache.path / "manifest.json").read_text())
    fields = {
        *manifest,
        *manifest["plan"],
        *(name for line in shards_of(cache.path) for name in line),
    }
    assert [name for name in fields if f"`{name}`" not in page and f'"{name}"' not in page] == []
    files = {re.sub(r"\d-\d{6}", "0-000000", path.name) for path in cache.path.iterdir()}
    assert [name for name in files if name not in page] == []
    assert f"Schema version {manifest['schema']}." in page

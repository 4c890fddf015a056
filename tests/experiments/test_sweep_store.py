"""A sweep that was killed goes on, and ends with the table of one that was not."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from filelock import FileLock

from activations_cache import ActivationsCache
from experiments.sweep_store import JsonLinesStore, stored_sweep
from hooks.activations import Activations, CaptureSpec
from probes import LogisticProbe, sweep
from tests.activations_cache.cache_batches import FINGERPRINT

N, D = 120, 8
LAYERS = tuple(range(8))
GROUPS = np.arange(N) // 2
rng = np.random.default_rng(0)
LABELS = {
    "a": rng.integers(0, 2, N),
    "b": np.where(np.arange(N) < 20, np.nan, rng.integers(0, 2, N)),
    "one class": np.ones(N),
}
SETTINGS: dict[str, Any] = {"groups": GROUPS, "penalties": (1e-3, 0.1), "n_permutations": 3}


def make_cache(folder: Path, ids: str = "item", fingerprint: str = "x") -> ActivationsCache:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(N, len(LAYERS), 1, D, generator=generator)
    spec = CaptureSpec(("resid_post",), LAYERS, ("prompt_last",))
    given = {**FINGERPRINT, "weights": fingerprint}
    with ActivationsCache.create(folder, fingerprint=given, spec=spec, dtype="float32") as cache:
        named = tuple(f"{ids}-{i}" for i in range(N))
        cache.append(
            Activations(named, {"resid_post": states}, layers=LAYERS, positions=("prompt_last",))
        )
    return ActivationsCache.open(folder)


@pytest.fixture
def cache(tmp_path: Path) -> ActivationsCache:
    return make_cache(tmp_path / "cache")


def sweep_and_be_killed(cache: Path, store: Path, after: int) -> None:
    def kill(done: int, total: int) -> None:
        if done == after:
            os.kill(os.getpid(), signal.SIGKILL)

    stored_sweep(store, ActivationsCache.open(cache), LABELS, progress=kill, **SETTINGS)


def lines(store: Path) -> list[bytes]:
    return store.read_bytes().split(b"\n")


def assert_identical(found, expected) -> None:
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame(), check_exact=True)
    np.testing.assert_array_equal(found.null, expected.null)
    assert [row.layer for row in found.rows] == [row.layer for row in expected.rows]


def test_a_killed_sweep_ends_with_the_same_table(cache, tmp_path) -> None:
    store = tmp_path / "new" / "sweep.jsonl"
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=sweep_and_be_killed, args=(cache.path, store, 3))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    kept = lines(store)
    assert 4 <= len(kept) < 2 + len(LAYERS)
    with store.open("ab") as file:  # what a kill in the midst of a write leaves
        file.write(kept[1][: len(kept[1]) // 2])
    read = []
    stored = stored_sweep(store, CountingCache(cache, read), LABELS, **SETTINGS)
    assert len(read) == len(LAYERS) - (len(kept) - 2)
    assert_identical(stored, sweep(cache, LABELS, **SETTINGS))
    assert lines(store)[: len(kept) - 1] == kept[:-1]
    # Everything is there now: no cell is read again.
    assert_identical(stored_sweep(store, CountingCache(cache, read), LABELS, **SETTINGS), stored)
    assert len(read) == len(LAYERS) - (len(kept) - 2)


class CountingCache:
    """A cache that notes which cells are read."""

    def __init__(self, cache: ActivationsCache, read: list[int]) -> None:
        self.ids, self.fingerprint, self.cells = cache.ids, cache.fingerprint, cache.cells
        self.cache, self.noted = cache, read

    def read(self, site: str, *, layer: int, position: str) -> np.ndarray:
        self.noted.append(layer)
        return self.cache.read(site, layer=layer, position=position)


def test_continuous_targets_are_kept_too(cache, tmp_path) -> None:
    given = {"groups": GROUPS, "probe": "ridge", "outcome": "continuous", "n_permutations": 2}
    y = np.linspace(0, 1, N)
    first, again = (stored_sweep(tmp_path / "s.jsonl", cache, y, **given) for _ in range(2))
    assert_identical(again, first)


@pytest.mark.parametrize(
    "changed",
    [
        {"y": {**LABELS, "a": 1 - LABELS["a"]}},
        {"y": {"renamed": LABELS["a"]}},
        {"groups": GROUPS // 2},
        {"penalties": (1e-3,)},
        {"seed": 1},
        {"n_permutations": 4},
        {"folds": GROUPS % 4},
        {"probe": "lda", "penalties": None},
        {"probe": LogisticProbe(C=2.0), "penalties": None},
    ],
    ids=str,
)
def test_the_store_of_another_sweep_is_refused(cache, tmp_path, changed) -> None:
    given = {"y": LABELS, **SETTINGS}
    stored_sweep(tmp_path / "s.jsonl", cache, **given)
    before = lines(tmp_path / "s.jsonl")
    with pytest.raises(ValueError, match="belongs to another sweep"):
        stored_sweep(tmp_path / "s.jsonl", cache, **{**given, **changed})
    assert lines(tmp_path / "s.jsonl") == before


@pytest.mark.parametrize("other", [{"ids": "other"}, {"fingerprint": "y"}])
def test_the_store_of_another_cache_is_refused(cache, tmp_path, other) -> None:
    stored_sweep(tmp_path / "s.jsonl", cache, LABELS, **SETTINGS)
    with pytest.raises(ValueError, match="belongs to another sweep"):
        stored_sweep(tmp_path / "s.jsonl", make_cache(tmp_path / "c", **other), LABELS, **SETTINGS)


@pytest.mark.parametrize(
    "content",
    [
        "not JSON\n",
        "{}\n",
        '{"format": 1, "sweep": "x"}\n{}\n',
        '{"format": 1, "sweep": "x"}\n{"cell": ["embed", null, "last"], "rows": [1]}\n',
    ],
)
def test_a_damaged_store_is_named(tmp_path, content) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"store: .*s.jsonl is damaged or no store") as caught:
        JsonLinesStore(path, "x")
    assert "\n" not in str(caught.value)
    assert path.read_text() == content


def test_a_store_holds_no_not_a_number_and_one_writer(cache, tmp_path) -> None:
    store = tmp_path / "s.jsonl"
    stored_sweep(store, cache, LABELS, **SETTINGS)
    for line in lines(store)[:-1]:
        json.loads(line, parse_constant=pytest.fail)
    with (
        FileLock(tmp_path / "s.jsonl.lock"),
        pytest.raises(ValueError, match="another process is writing"),
    ):
        stored_sweep(store, cache, LABELS, **SETTINGS)

"""`selfprobe cache`: what it prints, and its exit status."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from activations_cache import ActivationsCache
from experiments.cli import main
from hooks.activations import CaptureSpec
from tests.activations_cache.cache_batches import FINGERPRINT, SPEC, make_batch, make_plan

PLAN = make_plan(4)
SECOND = "shard-0-000001.h5"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole cache of two shards."""
    path = tmp_path / "cache"
    with ActivationsCache.create(
        path, fingerprint=FINGERPRINT, spec=SPEC, plan=PLAN, shard_rows=8
    ) as cache:
        for ids in PLAN:
            cache.append(make_batch(ids, options=("yes",)))
    return path


@pytest.fixture
def selfprobe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command line; exit status, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["selfprobe", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            main()
        return leaving.value.code, *capsys.readouterr()

    return run


def test_info_says_what_is_in_a_cache_and_what_is_still_to_come(folder: Path, selfprobe) -> None:
    with ActivationsCache.open(folder) as cache:
        cache.extend(CaptureSpec(("final_norm",), SPEC.layers, SPEC.positions))
        cache.append(make_batch(PLAN[0], cache.spec, options=("yes",)))
    status, out, _ = selfprobe("cache", "info", folder, "--json")
    held = json.loads(out)
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert status == 0
    assert held == {
        "path": str(folder),
        "items": 16,
        "planned": 16,
        "unfinished": 12,
        "sites": ["resid_post", "embed", "final_norm"],
        "layers": [1, 3, 4],
        "positions": ["instruction_last", "prompt_last"],
        "cells": 8,
        "options": ["yes"],
        "d_model": 8,
        "dtype": "bfloat16",
        "compression": None,
        "bytes": size,
        "fingerprint": FINGERPRINT,
    }
    status, out, _ = selfprobe("cache", "info", folder)
    assert "unfinished   12\n" in out
    assert "layers       1, 3, 4\n" in out
    assert "  weights_sha256           ab12\n" in out


def test_verify_and_repair_a_truncated_shard(folder: Path, selfprobe) -> None:
    status, out, err = selfprobe("cache", "verify", folder)
    assert (status, err) == (0, "")
    assert out == f"2 shards, {shard_bytes(folder)} bytes, 16 items of 16\n"
    os.truncate(folder / SECOND, 99)
    status, out, err = selfprobe("cache", "info", folder)
    assert status == 2
    assert "selfprobe cache repair" in err
    status, out, err = selfprobe("cache", "verify", folder)
    assert status == 1
    assert out.startswith(f"{SECOND} has 99 of ")
    assert "(8 items)\n" in out
    assert err.startswith(f"selfprobe: 1 problem in {folder}; `selfprobe cache repair ")
    assert err.count("\n") == 1
    status, out, _ = selfprobe("cache", "verify", folder, "--json")
    assert status == 1
    (problem,) = json.loads(out)["problems"]
    assert (problem["file"], problem["kind"], problem["n_items"]) == (SECOND, "damaged", 8)
    status, out, _ = selfprobe("cache", "repair", folder)
    assert status == 0
    assert f"{SECOND}: no longer listed\n{SECOND}: moved into {folder / 'damaged'}\n" in out
    assert "8 items are to be captured" in out
    status, out, _ = selfprobe("cache", "repair", folder, "--json")
    assert json.loads(out) == {
        "path": str(folder),
        "dropped": [],
        "set_aside": [],
        "removed": [],
        "n_items": 8,
    }
    status, out, err = selfprobe("cache", "verify", folder)
    assert status == 1
    assert "8 are still to be captured: run the same capture again" in out


def shard_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.h5"))


@pytest.mark.parametrize("command", ["info", "verify", "repair"])
def test_a_folder_that_is_no_cache_is_a_bad_argument(
    tmp_path: Path, selfprobe, command: str
) -> None:
    status, _, err = selfprobe("cache", command, tmp_path)
    assert status == 2
    assert err.startswith(f"selfprobe: no activations cache at {tmp_path}: it has no manifest.json")
    (tmp_path / "manifest.json").write_text('{"schema": 1}')
    status, _, err = selfprobe("cache", command, tmp_path)
    assert status == 2
    assert "version 1, this selfprobe reads version 2; capture into a new folder" in err

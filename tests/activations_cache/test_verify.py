"""Faults really done to a cache: each is found, named, set aside, and captured again."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from activations_cache import ActivationsCache, CacheLockedError, repair, verify
from tests.activations_cache.cache_batches import (
    FINGERPRINT,
    SPEC,
    make_batch,
    make_plan,
    shards_of,
)

PLAN = make_plan(6)
IDS = tuple(item for batch in PLAN for item in batch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards of two batches each, one of them captured out of turn."""
    path = tmp_path / "cache"
    with ActivationsCache.create(
        path, fingerprint=FINGERPRINT, spec=SPEC, plan=PLAN, shard_rows=8
    ) as cache:
        for number in (0, 1, 4, 5, 2, 3):
            cache.append(make_batch(PLAN[number], options=("yes",)))
    assert verify(path).problems == ()
    return path


def capture_again(folder: Path) -> list[tuple[str, ...]]:
    """The batches that ran."""
    with ActivationsCache.open(folder, fingerprint=FINGERPRINT, spec=SPEC, plan=PLAN) as cache:
        ran = [batch for batch in PLAN if not cache.done.issuperset(batch)]
        for batch in ran:
            cache.append(make_batch(batch, options=("yes",)))
    return ran


def check_whole(folder: Path) -> None:
    assert verify(folder).problems == ()
    cache = ActivationsCache.open(folder, plan=PLAN)
    assert cache.ids == IDS
    expected = make_batch(IDS, options=("yes",))
    for site, layer, position in cache.cells():
        at = 0 if layer is None else SPEC.layers.index(layer)
        values = expected.sites[site][:, at, SPEC.positions.index(position)]
        np.testing.assert_array_equal(
            cache.read(site, layer=layer, position=position), values.bfloat16().float().numpy()
        )
    np.testing.assert_array_equal(cache.read_options("yes"), expected.option_logprobs["yes"])


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


SECOND = "shard-0-000001.h5"


def first_number(folder: Path) -> int:
    return int(shards_of(folder)[1]["offsets"]["resid_post"])


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: truncate(folder / SECOND), r"has \d+ of \d+ bytes"),
        (lambda folder: (folder / SECOND).unlink(), "is missing"),
        (lambda folder: flip(folder / SECOND, first_number(folder) + 5), "its sha256 is"),
        (lambda folder: flip(folder / SECOND, 0), "its sha256 is"),
        (
            lambda folder: (folder / SECOND).write_bytes(bytes((folder / SECOND).stat().st_size)),
            "its sha256 is",
        ),
    ],
    ids=["truncated", "missing", "flipped number", "flipped header", "zeros"],
)
def test_trap_13_a_damaged_shard_is_named_set_aside_and_captured_again(
    folder: Path, harm: Callable[[Path], None], message: str
) -> None:
    harm(folder)
    (damage,) = verify(folder).problems
    assert (damage.file, damage.kind, damage.n_items) == (SECOND, "damaged", 8)
    assert re.search(message, damage.what)
    done = repair(folder)
    assert done.dropped == (SECOND,)
    assert done.n_items == 8
    assert [problem.kind for problem in verify(folder).problems] == ["incomplete"]
    assert ActivationsCache.open(folder).ids == PLAN[0] + PLAN[1] + PLAN[2] + PLAN[3]
    assert capture_again(folder) == [PLAN[4], PLAN[5]]
    check_whole(folder)


def test_repair_moves_shards_unless_told_to_delete(folder: Path) -> None:
    truncate(folder / SECOND)
    assert repair(folder).set_aside == (SECOND,)
    assert (folder / "damaged" / SECOND).exists()
    capture_again(folder)
    # The shard captured again comes after the others; harm it, too.
    newest = shards_of(folder)[-1]["file"]
    truncate(folder / newest)
    assert repair(folder, delete=True).removed == (newest,)
    assert [path.name for path in (folder / "damaged").iterdir()] == [SECOND]
    capture_again(folder)
    check_whole(folder)


def test_what_a_dead_writer_left_is_named_and_removed(folder: Path) -> None:
    unlisted = folder / "shard-0-000003.h5"
    unlisted.write_bytes((folder / SECOND).read_bytes())
    (folder / "shard-0-000004.h5.tmp").write_bytes(b"half")
    (folder / "writer.lock").write_text(
        f'{{"pid": 4194999, "host": "{os.uname().nodename}", "started": null, "since": 0}}'
    )
    with (folder / "shards.jsonl").open("a") as journal:
        journal.write('{"file": "shard-0-0000')
    found = {problem.file: problem for problem in verify(folder).problems}
    assert found.keys() == {
        unlisted.name,
        "shard-0-000004.h5.tmp",
        "writer.lock",
        "shards.jsonl",
    }
    assert {problem.kind for problem in found.values()} == {"left over"}
    assert found[unlisted.name].n_items == 8
    done = repair(folder)
    assert done.set_aside == (unlisted.name,)
    assert set(done.removed) == {"writer.lock", "shard-0-000004.h5.tmp"}
    assert done.n_items == 0
    check_whole(folder)


def test_a_writer_clears_what_the_last_one_left_without_a_repair(folder: Path) -> None:
    (folder / "shard-0-000003.h5.tmp").write_bytes(b"half")
    (folder / "shard-0-000003.h5").write_bytes((folder / SECOND).read_bytes())
    with (folder / "shards.jsonl").open("a") as journal:
        journal.write('{"file": "shard-0-0000')
    cache = ActivationsCache.open(folder)
    assert cache.ids == IDS
    cache.extend(type(SPEC)(("final_norm",), SPEC.layers, SPEC.positions))
    cache.close()
    assert [problem.kind for problem in verify(folder).problems] == ["incomplete"]


def test_a_damaged_line_of_the_journal_costs_its_shard_alone(folder: Path) -> None:
    path = folder / "shards.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[1].replace('"items": 8', '"items": 7') + lines[2])
    with pytest.raises(ValueError, match=r"shards.jsonl is damaged \(line 2\); .*cache repair"):
        ActivationsCache.open(folder)
    assert {(p.file, p.kind) for p in verify(folder).problems} == {
        ("shards.jsonl", "damaged"),
        (SECOND, "left over"),
        ("plan.json", "incomplete"),
    }
    assert repair(folder).set_aside == (SECOND,)
    assert capture_again(folder) == [PLAN[4], PLAN[5]]
    check_whole(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[4, 5]]", "[[2, 3]]", "holds other ids"),
        ('"resid_post": ', '"resid_post": 1', "holds resid_post at byte"),
    ],
)
def test_a_journal_that_says_otherwise_than_a_shard_is_found(
    folder: Path, old: str, new: str, message: str
) -> None:
    path = folder / "shards.jsonl"
    first, second, third = path.read_text().splitlines(keepends=True)
    assert old in second
    path.write_text(first + second.replace(old, new) + third)
    problems = verify(folder).problems
    assert message in problems[0].what
    repair(folder)
    capture_again(folder)
    check_whole(folder)


def test_the_same_items_twice_are_found(folder: Path) -> None:
    path = folder / "shards.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    (folder / "shard-0-000003.h5").write_bytes((folder / SECOND).read_bytes())
    path.write_text("".join([*lines, lines[1].replace(SECOND, "shard-0-000003.h5")]))
    (problem,) = verify(folder).problems
    assert (problem.file, problem.n_items) == ("shard-0-000003.h5", 8)
    assert f"holds 'item-004-0' again, which {SECOND} holds" in problem.what
    repair(folder)
    check_whole(folder)


def test_a_manifest_that_cannot_be_read_is_named_and_not_mended(folder: Path) -> None:
    truncate(folder / "manifest.json")
    (problem,) = verify(folder).problems
    assert (problem.file, problem.kind) == ("manifest.json", "unusable")
    with pytest.raises(ValueError, match=r"manifest.json is damaged"):
        repair(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(ValueError, match="no activations cache at"):
        verify(folder)


def test_a_cache_that_is_being_written_is_not_called_broken_nor_repaired(folder: Path) -> None:
    cache = ActivationsCache.open(folder)
    cache.extend(type(SPEC)(("final_norm",), SPEC.layers, SPEC.positions))
    (folder / "shard-1-000000.h5.tmp").write_bytes(b"half")
    report = verify(folder)
    assert report.problems == ()
    assert report.being_written
    with pytest.raises(CacheLockedError, match="is being written by process"):
        repair(folder)
    (folder / "shard-1-000000.h5.tmp").unlink()
    cache.close()


def test_a_repair_without_a_plan_counts_what_it_took_away(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    with ActivationsCache.create(path, fingerprint=FINGERPRINT, spec=SPEC, shard_rows=8) as cache:
        for batch in PLAN:
            cache.append(make_batch(batch))
    truncate(path / SECOND)
    assert repair(path).n_items == 8
    cache = ActivationsCache.open(path)
    assert cache.missing(IDS) == list(PLAN[2] + PLAN[3])
    assert verify(path).problems == ()


@pytest.mark.parametrize("axis", ["layers", "positions"])
def test_axes_named_otherwise_in_the_manifest_are_found(folder: Path, axis: str) -> None:
    """The shapes are the same: nothing but the shards says which column is which."""
    manifest = folder / "manifest.json"
    document = json.loads(manifest.read_text())
    document["parts"][0][axis].reverse()
    manifest.write_text(json.dumps(document))
    (problem,) = (p for p in verify(folder).problems if p.file == "manifest.json")
    assert problem.kind == "unusable"
    assert f"holds the {axis}" in problem.what
    with pytest.raises(ValueError, match=r"manifest\.json"):
        repair(folder)
    assert len(list(folder.glob("*.h5"))) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="gives up root's rights")
def test_a_shard_that_may_not_be_read_is_neither_damaged_nor_moved(folder: Path) -> None:
    for parent in (folder, *folder.parents[:3]):
        parent.chmod(0o777)
    (folder / "shard-0-000000.h5").chmod(0o600)

    def as_nobody(work: Callable[[Path], object]) -> int:
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            try:
                work(folder)
            except PermissionError:
                os._exit(13)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert as_nobody(verify) == 13
    assert as_nobody(repair) == 13
    assert verify(folder).problems == ()


@pytest.mark.parametrize("item", [7, "a\0b", "\ud800"])
def test_what_cannot_be_stored_as_an_id_is_refused_at_once(tmp_path: Path, item: object) -> None:
    with ActivationsCache.create(tmp_path / "c", fingerprint=FINGERPRINT, spec=SPEC) as cache:
        cache.append(make_batch(["a"]))
        batch = replace(make_batch(["b"]), ids=(item,))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"ids: .* cannot be stored"):
            cache.append(batch)
    assert ActivationsCache.open(tmp_path / "c").ids == ("a",)

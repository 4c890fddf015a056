"""A cache folder from a stranger: nothing outside it is touched, and nothing in it ends in a traceback."""

from __future__ import annotations

import json
import os
import re
import resource
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from activations_cache import ActivationsCache, journal, merge, repair, replace_file, verify
from activations_cache.journal import ShardRecord
from activations_cache.lock import owner_of
from hooks.activations import CaptureSpec
from tests.activations_cache.cache_batches import (
    FINGERPRINT,
    SPEC,
    make_batch,
    make_plan,
    shards_of,
)

PLAN = make_plan(6)
FIRST, SECOND = "shard-0-000000.h5", "shard-0-000001.h5"
SECRET = b"outside the folder, without a newline at its end"


def make_cache(path: Path, **options: Any) -> Path:
    """Three shards of two batches each."""
    with ActivationsCache.create(
        path, fingerprint=FINGERPRINT, spec=SPEC, shard_rows=8, **options
    ) as cache:
        for batch in PLAN:
            cache.append(make_batch(batch, options=("yes",)))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_cache(tmp_path / "cache", plan=PLAN)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret").write_bytes(SECRET)
    return path


def everything(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def try_all(folder: Path) -> list[str]:
    """Do to a cache what can be done; the messages of refusals, each of one line."""
    said = []

    def extend() -> None:
        with ActivationsCache.open(folder) as cache:
            cache.extend(CaptureSpec(("final_norm",), SPEC.layers, SPEC.positions))
            cache.append(make_batch(PLAN[0], cache.spec, options=("yes",)))

    def read() -> None:
        cache = ActivationsCache.open(folder)
        for site, layer, position in cache.cells():
            cache.read(site, layer=layer, position=position)
        cache.read_options("yes")

    for work in (
        read,
        lambda: said.extend(map(str, verify(folder).problems)),
        lambda: merge([folder], folder.with_name("merged")),
        extend,
        lambda: repair(folder),
        lambda: repair(folder, delete=True),
    ):
        try:
            work()
        except ValueError as error:
            said.append(str(error))
    assert [message for message in said if "\n" in message or len(message) > 700] == []
    return said


def replace_by_link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize(
    "name", ["writer.lock", "shards.jsonl", "manifest.json", "plan.json", FIRST]
)
@pytest.mark.parametrize("kind", ["the same file", "another file", "nothing"])
def test_a_link_in_the_place_of_a_file_is_refused(
    folder: Path, outside: Path, name: str, kind: str
) -> None:
    if kind == "the same file" and (folder / name).exists():
        (outside / "secret").write_bytes((folder / name).read_bytes())
    elif kind == "nothing":
        (outside / "secret").unlink()
    before = everything(outside)
    replace_by_link(folder / name, outside / "secret")
    said = try_all(folder)
    assert any(f"{name} is no regular file (a link, say)" in message for message in said)
    assert everything(outside) == before


@pytest.mark.parametrize("name", ["writer.lock", "shards.jsonl", "manifest.json", FIRST])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_a_folder_in_the_place_of_a_file_is_refused(
    folder: Path, name: str, make: Callable[[Path], None]
) -> None:
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    said = try_all(folder)
    assert any(f"{name} is no regular file" in message for message in said)


@pytest.mark.parametrize("name", ["writer.lock", "shards.jsonl"])
def test_a_file_that_is_written_in_place_is_no_hard_link(
    folder: Path, outside: Path, name: str
) -> None:
    if (folder / name).exists():
        (outside / "secret").write_bytes((folder / name).read_bytes())
    (folder / name).unlink(missing_ok=True)
    os.link(outside / "secret", folder / name)
    before = everything(outside)
    said = try_all(folder)
    assert any(f"{name} is the same file as one elsewhere" in message for message in said)
    assert everything(outside) == before


@pytest.mark.parametrize(
    "name", ["shards.jsonl", "manifest.json", "plan.json", FIRST, SECOND, "shard-0-000003.h5"]
)
def test_a_link_in_the_place_of_a_file_aside_is_not_written_through(
    folder: Path, outside: Path, name: str
) -> None:
    before = everything(outside)
    replace_by_link(folder / f"{name}.tmp", outside / "secret")
    verify(folder)
    repair(folder)
    assert not os.path.lexists(folder / f"{name}.tmp")
    replace_by_link(folder / f"{name}.tmp", outside / "secret")
    replace_file(folder / name, b"new")
    assert (folder / name).read_bytes() == b"new"
    assert not os.path.lexists(folder / f"{name}.tmp")
    assert everything(outside) == before


def test_a_journal_that_becomes_a_link_is_not_written_through(folder: Path, outside: Path) -> None:
    line = ShardRecord(FIRST, 0, 1, "0" * 64, None, ("a",))
    before = everything(outside)
    replace_by_link(folder / "shards.jsonl", outside / "secret")
    for work in (lambda: journal.append(folder, line), lambda: journal.trim(folder)):
        with pytest.raises(ValueError, match=r"shards.jsonl is no regular file"):
            work()
    assert everything(outside) == before


def test_a_new_cache_among_links_does_not_write_through_them(tmp_path: Path, outside: Path) -> None:
    before = everything(outside)
    path = tmp_path / "new"
    path.mkdir()
    for name in ("plan.json", "shards.jsonl", "shards.jsonl.tmp", "manifest.json.tmp"):
        (path / name).symlink_to(outside / "secret")
    make_cache(path, plan=PLAN)
    assert verify(path).problems == ()
    assert everything(outside) == before


@pytest.mark.parametrize("target", ["outside", "nowhere"])
def test_a_repair_moves_nothing_through_a_link(
    folder: Path, outside: Path, tmp_path: Path, target: str
) -> None:
    (folder / "damaged").symlink_to(tmp_path / target)
    (folder / FIRST).write_bytes(b"damaged")
    before = everything(folder.parent / "outside"), sorted(os.listdir(folder))
    with pytest.raises(ValueError, match=r"damaged is no folder \(a link, say\); delete it"):
        repair(folder)
    assert (everything(outside), sorted(os.listdir(folder))) == before


def test_a_shard_that_is_a_link_is_set_aside_as_a_link(folder: Path, outside: Path) -> None:
    (outside / "secret").write_bytes((folder / FIRST).read_bytes())
    before = everything(outside)
    replace_by_link(folder / FIRST, outside / "secret")
    replace_by_link(folder / "shard-0-000009.h5", outside / "secret")
    with pytest.raises(ValueError, match=rf"{FIRST} is no regular file"):
        ActivationsCache.open(folder)
    found = {problem.file: problem for problem in verify(folder).problems}
    assert found[FIRST].kind == "damaged"
    assert found["shard-0-000009.h5"].n_items == 0
    assert repair(folder).set_aside == (FIRST, "shard-0-000009.h5")
    assert everything(outside) == before


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))


def edit_line(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    first, *others = shards_of(folder)
    change(first)
    lines = [json.dumps(line) + "\n" for line in (first, *others)]
    (folder / "shards.jsonl").write_text("".join(lines))


DEEP = '{"schema": 2, "file": ' + "[" * 100_000


@pytest.mark.parametrize(
    "fields",
    [
        {"file": "../outside/secret"},
        {"file": "/etc/passwd"},
        {"file": "x.h5"},
        {"file": "shard-1-000000.h5"},
        {"file": "shard-0-000000.h5\n"},
        {"file": "shard-0-\u0660\u0660\u0660\u0660\u0660\u0660.h5"},
        {"file": f"shard-0-{'9' * 5000}.h5"},
        {"file": 5},
        {"part": 1},
        {"part": -1},
        {"part": "0"},
        {"part": True},
        {"bytes": "many"},
        {"bytes": -1},
        {"bytes": 10**30},
        {"sha256": 5},
        {"sha256": "ab"},
        {"items": "8"},
        {"items": 7},
        {"offsets": 5},
        {"offsets": {"resid_post": "0"}},
        {"offsets": {"resid_post": -1, "embed": 2}},
        {"offsets": {str(number): number for number in range(9)}},
        {"batches": [[0, 3 * 10**8]]},
        {"batches": [[0, 1]] * 10},
        {"batches": [[-2, -1]]},
        {"batches": [[0]]},
        {"batches": [[0, 1, 2]]},
        {"batches": [["0", "1"]]},
        {"batches": 5},
        {"batches": None},
    ],
    ids=lambda fields: str(fields)[:60],
)
def test_a_line_of_the_journal_that_is_not_one_is_damaged(
    folder: Path, outside: Path, fields: dict[str, Any]
) -> None:
    (outside / "secret").write_bytes((folder / FIRST).read_bytes())
    before = everything(outside)
    edit_line(folder, lambda line: line.update(fields))
    with pytest.raises(ValueError, match=r"shards.jsonl is damaged \(line [12]\)"):
        ActivationsCache.open(folder)
    assert [problem.file for problem in verify(folder).problems if problem.kind == "damaged"] == [
        "shards.jsonl"
    ]
    # A shard whose line cannot be read may be a good one: it is moved, whatever was asked for.
    before_repair = (folder / FIRST).read_bytes()
    repair(folder, delete=True)
    places = [path for path in (folder / FIRST, folder / "damaged" / FIRST) if path.exists()]
    assert [path.read_bytes() for path in places] == [before_repair]
    assert everything(outside) == before


def test_ids_that_are_no_ids_and_lines_too_deep_are_damaged(tmp_path: Path) -> None:
    folder = make_cache(tmp_path / "cache")
    good = (folder / "shards.jsonl").read_bytes()
    for ids in ([1] * 8, ["a"] * 8, "abcdefgh", None, [["a"]] * 8):
        (folder / "shards.jsonl").write_bytes(good)
        edit_line(folder, lambda line, ids=ids: line.update(ids=ids))
        with pytest.raises(ValueError, match=r"shards.jsonl is damaged \(line 1\)"):
            ActivationsCache.open(folder)
    for line in (DEEP, "[" * 100_000, "5", "null", "[]", '{"a"', "\ufeff{}"):
        (folder / "shards.jsonl").write_text(f"{line}\n")
        assert verify(folder).problems[0].what == "is damaged in line 1"
    (folder / "shards.jsonl").write_bytes(good.replace(b"item", b"\xff\xfe", 1))
    assert verify(folder).problems[0].what == "is damaged in line 1"


def test_a_file_that_is_listed_twice_is_kept(folder: Path) -> None:
    edit_line(folder, lambda line: line.update(file=SECOND))
    before = (folder / SECOND).read_bytes()
    assert repair(folder, delete=True).set_aside == (FIRST, SECOND)
    assert (folder / "damaged" / SECOND).read_bytes() == before


def test_many_short_lines_do_not_ask_for_much_memory(tmp_path: Path) -> None:
    folder = make_cache(tmp_path / "cache", plan=PLAN)
    line = json.dumps({**shards_of(folder)[0], "batches": [[0, 5]], "items": 24})
    lines = [line.replace(FIRST, f"shard-0-{number:06d}.h5") + "\n" for number in range(9)]
    (folder / "shards.jsonl").write_text("".join(lines))
    report = verify(folder)
    assert report.n_shards == 2


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        ({"resid_post": 0}, "resid_post at byte 0, where other bytes are"),
        ({"resid_post": 2**40}, "numbers beyond its"),
        ({"resid_post": None}, "other sites than its part has"),
        ({"final_norm": 4096}, "other sites than its part has"),
        ({"embed": "as resid_post"}, "where other bytes are"),
        (None, "is not stored with the compression None"),
    ],
)
def test_numbers_are_read_where_numbers_are(
    folder: Path, sites: dict[str, Any] | None, message: str
) -> None:
    def change(line: dict[str, Any]) -> None:
        offsets = {**line["offsets"], **(sites or {})}
        if offsets["embed"] == "as resid_post":
            offsets["embed"] = offsets["resid_post"]
        line["offsets"] = (
            None if sites is None else {site: at for site, at in offsets.items() if at is not None}
        )

    edit_line(folder, change)
    with pytest.raises(ValueError, match=rf"shard .*{FIRST} .*{message}"):
        ActivationsCache.open(folder)
    (problem,) = verify(folder).problems
    assert (problem.file, problem.kind, problem.n_items) == (FIRST, "damaged", 8)
    repair(folder)
    assert [problem.kind for problem in verify(folder).problems] == ["incomplete"]


def part(**fields: Any) -> dict[str, Any]:
    return {"sites": ["resid_post"], "layers": [0], "positions": ["prompt_last"], **fields}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"dtype": "foo"}, "dtype"),
        ({"dtype": 5}, "dtype"),
        ({"compression": "gzip"}, "compression"),
        ({"compression": ["zstd"]}, "compression"),
        ({"fingerprint": 5}, "fingerprint"),
        ({"shard_rows": 0}, "shard_rows"),
        ({"shard_rows": "8"}, "shard_rows"),
        ({"d_model": 10**12}, "d_model"),
        ({"d_model": -8}, "d_model"),
        ({"d_model": "8"}, "d_model"),
        ({"d_model": None}, "d_model"),
        ({"options": "yes"}, "options"),
        ({"options": [5]}, "options"),
        ({"options": None}, "options"),
        ({"parts": []}, "parts"),
        ({"parts": 5}, "parts"),
        ({"parts": [5]}, "parts"),
        ({"parts": [part(sites="resid_post")]}, "sites"),
        ({"parts": [part(sites=["x"])]}, "sites"),
        ({"parts": [part(layers=[10**12])]}, "layers"),
        ({"parts": [part(layers=5)]}, "layers"),
        ({"parts": [part(layers="all")]}, "parts: layers are"),
        ({"parts": [part(positions=[5])]}, "positions"),
        ({"parts": [part(), part()]}, "parts: they share cells"),
        ({"parts": [part(), part(layers=[1], positions=["quote_last"])]}, "parts: they"),
        (
            {
                "parts": [
                    part(
                        layers=list(range(20_000)),
                        positions=[f"template_{k}" for k in range(1, 20_000)],
                    )
                ]
            },
            "parts: more than 1048576 cells",
        ),
        ({"plan": 5}, "plan"),
        ({"plan": {"file": "plan.json", "batches": 6, "items": 24}}, "plan.sha256"),
        (
            {"plan": {"file": "../plan.json", "sha256": "0" * 64, "batches": 6, "items": 24}},
            "plan.file",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_manifest_that_is_not_one_is_unusable_and_its_field_named(
    folder: Path, fields: dict[str, Any], named: str
) -> None:
    edit(folder / "manifest.json", lambda document: document.update(fields))
    before = everything(folder)
    (problem,) = verify(folder).problems
    assert (problem.file, problem.kind) == ("manifest.json", "unusable")
    assert re.search(rf"(field |field parts\.0\.|\(){named}", problem.what)
    for message in try_all(folder):
        assert "manifest.json is damaged" in message
    assert everything(folder) == before


@pytest.mark.parametrize("text", [DEEP, "[]", "5", "", '{"schema": "2"}', '{"schema": [2]}', "{}"])
def test_a_manifest_that_is_no_object_is_unusable(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    (problem,) = verify(folder).problems
    assert (problem.file, problem.kind) == ("manifest.json", "unusable")
    assert len({message.split(" is damaged")[0] for message in try_all(folder)[2:]}) == 1


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        "[]",
        "{}",
        '{"batches": 5}',
        '{"batches": ["abc"]}',
        '{"batches": [[]]}',
        '{"batches": [["a"], ["a"]]}',
        '{"batches": [[5]]}',
        '{"batches": [[["a"]]]}',
    ],
    ids=lambda text: text[:40],
)
def test_a_plan_that_is_not_one_is_unusable(folder: Path, text: str) -> None:
    import hashlib

    (folder / "plan.json").write_text(text)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    edit(folder / "manifest.json", lambda document: document["plan"].update(sha256=sha256))
    (problem,) = verify(folder).problems
    assert (problem.file, problem.kind) == ("plan.json", "unusable")
    assert all("plan.json is damaged" in message for message in try_all(folder))


@pytest.mark.parametrize(
    "fields",
    [
        {"dtype": "float16"},
        {"dtype": "float32"},
        {"compression": "zstd"},
        {"d_model": 4},
        {"options": ["no"]},
        {"options": []},
        {"parts": [part()]},
    ],
    ids=str,
)
def test_good_shards_are_not_given_up_for_a_manifest_that_was_changed(
    folder: Path, fields: dict[str, Any]
) -> None:
    edit(folder / "manifest.json", lambda document: document.update(fields))
    before = everything(folder)
    (problem,) = verify(folder).problems
    assert (problem.file, problem.kind) == ("manifest.json", "unusable")
    assert f"does not fit {FIRST}, whose sha256 is right" in problem.what
    for delete in (False, True):
        with pytest.raises(ValueError, match=f"manifest.json does not fit {FIRST}"):
            repair(folder, delete=delete)
    assert everything(folder) == before


def test_good_shards_are_moved_not_deleted_where_the_manifest_lost_its_plan(folder: Path) -> None:
    edit(folder / "manifest.json", lambda document: document.update(plan=None))
    shards = {name: data for name, data in everything(folder).items() if name.endswith(".h5")}
    repair(folder, delete=True)
    assert everything(folder / "damaged") == shards


def forge(folder: Path, change: Callable[[h5py.File], object]) -> None:
    """Change a shard, and the journal with it, as one who wants to deceive does."""
    import hashlib

    with h5py.File(folder / FIRST, "r+") as file:
        change(file)
    data = (folder / FIRST).read_bytes()
    edit_line(
        folder,
        lambda line: line.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest()),
    )


def outer_bytes(name: str, shape: tuple[int, ...], dtype: str) -> Callable[[h5py.File], object]:
    def change(file: h5py.File) -> None:
        names = file[name].attrs.items()
        attributes = dict(names)
        del file[name]
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        path = Path(file.filename).parents[1] / "outside" / "secret"
        dataset = file.create_dataset(name, shape, dtype, external=[(str(path), 0, size)])
        dataset.attrs.update(attributes)

    return change


def outer_link(name: str, target: str) -> Callable[[h5py.File], object]:
    def change(file: h5py.File) -> None:
        del file[name]
        file[name] = h5py.ExternalLink(str(Path(file.filename).parents[1] / "other.h5"), target)

    return change


def virtual(file: h5py.File) -> None:
    shape = file["option_logprobs"].shape
    layout = h5py.VirtualLayout(shape=shape, dtype="<f4")
    other = Path(file.filename).parents[1] / "other.h5"
    layout[:] = h5py.VirtualSource(str(other), "option_logprobs", shape=shape)
    names = file["option_logprobs"].attrs["names"]
    del file["option_logprobs"]
    file.create_virtual_dataset("option_logprobs", layout).attrs["names"] = names


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (outer_bytes("option_logprobs", (8, 1), "<f4"), "option_logprobs lies in another file"),
        (outer_link("option_logprobs", "option_logprobs"), "option_logprobs is a link"),
        (virtual, "option_logprobs lies in another file"),
        (outer_bytes("activations/embed", (1, 2, 8, 8), "<u2"), "embed lies in another file"),
        (outer_link("activations", "activations"), "activations is a link"),
        (outer_link("ids", "ids"), "ids is a link"),
        (
            lambda file: (file.__delitem__("ids"), file.create_group("ids")),
            "cannot be read",
        ),
        (
            lambda file: (file.__delitem__("ids"), file.create_dataset("ids", (2**50,), "f4")),
            "cannot be read|holds",
        ),
        (lambda file: file.__delitem__("option_logprobs"), "it has no option_logprobs"),
    ],
    ids=[
        *("options outside", "options link", "options virtual", "numbers outside"),
        *("group link", "ids link", "ids group", "ids bomb", "no options"),
    ],
)
def test_a_shard_holds_its_numbers_itself(
    tmp_path: Path,
    outside: Path,
    compression: str | None,
    change: Callable[[h5py.File], object],
    message: str,
) -> None:
    if compression:
        pytest.importorskip("hdf5plugin")
    folder = make_cache(tmp_path / "cache", plan=PLAN, compression=compression)
    (tmp_path / "other.h5").write_bytes((folder / FIRST).read_bytes())
    (outside / "secret").write_bytes(b"secret" * 200)
    forge(folder, change)
    (problem, *_) = verify(folder).problems
    assert problem.kind in ("damaged", "unusable")
    assert np.any([word in problem.what for word in message.split("|")]), problem.what
    try_all(folder)


def test_options_and_compressed_numbers_from_elsewhere_are_not_given_out(
    tmp_path: Path, outside: Path
) -> None:
    pytest.importorskip("hdf5plugin")
    folder = make_cache(tmp_path / "cache", plan=PLAN, compression="zstd")
    (outside / "secret").write_bytes(b"secret" * 200)
    forge(folder, outer_bytes("option_logprobs", (8, 1), "<f4"))
    forge(folder, outer_bytes("activations/embed", (1, 2, 8, 8), "<u2"))
    cache = ActivationsCache.open(folder)
    with pytest.raises(ValueError, match="option_logprobs lies in another file"):
        cache.read_options("yes")
    with pytest.raises(ValueError, match="embed lies in another file"):
        cache.read("embed", position="prompt_last")
    cache.read("resid_post", layer=1, position="prompt_last")


@pytest.mark.parametrize(
    "owner",
    [
        '{"pid": "../../outside", "host": "HOST", "started": "1", "since": 0}',
        '{"pid": -1, "host": "HOST", "started": null, "since": 0}',
        '{"pid": 1e300, "host": "HOST", "started": null, "since": 0}',
        '{"pid": 100000000000000000000, "host": "HOST", "started": null, "since": 0}',
        '{"pid": 1, "host": "elsewhere", "started": null, "since": "x"}',
        '{"pid": 1, "host": "two\\nlines", "started": null, "since": 0}',
        "[" * 4096,
        "5",
    ],
    ids=lambda text: text[:30],
)
def test_a_lock_that_is_none_is_taken_over(folder: Path, owner: str) -> None:
    (folder / "writer.lock").write_text(owner.replace("HOST", os.uname().nodename))
    assert owner_of(folder / "writer.lock") is None
    assert [problem.file for problem in verify(folder).problems] == ["writer.lock"]
    assert repair(folder).removed == ("writer.lock",)
    assert verify(folder).problems == ()


def test_a_writer_never_takes_the_name_of_a_listed_shard(folder: Path) -> None:
    path = folder / "shards.jsonl"
    first, second, third = path.read_text().splitlines(keepends=True)
    path.write_text(third + second + first)
    with ActivationsCache.open(folder) as cache:
        cache.extend(CaptureSpec(("final_norm",), SPEC.layers, SPEC.positions))
    assert [problem.kind for problem in verify(folder).problems] == ["incomplete"]


def open_in_little_memory(folder: Path) -> None:
    limit = 512 * 2**20 + _size_of_process()
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try_all(folder)


def _size_of_process() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory from /proc")
def test_a_few_bytes_cannot_ask_for_all_memory(folder: Path) -> None:
    edit_line(folder, lambda line: line.update(batches=[[0, 3 * 10**8]]))
    edit(folder / "manifest.json", lambda document: document.update(d_model=2**17))
    process = get_context("fork").Process(target=open_in_little_memory, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == 0

"""`selfprobe bench cache`: the cache against plain files of the same numbers.

- writing against `numpy.save` of the same bytes, fsynced, which packs no batches and hashes nothing;
- one (layer, position) column, as float32, against reading the same bytes from a file that holds nothing else;
- that column against `torch.save`d batches, which have to be loaded whole;
- the peak memory of a process that writes and reads all items, over that for a quarter of them.

Every file that is read was read before, so all reads come from the page cache; contestants take turns.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch

from activations_cache import ActivationsCache
from activations_cache.columns import open_columns
from activations_cache.contents import Contents
from experiments.bench.made_up_activations import BATCH_ITEMS, POSITIONS, MadeUpActivations
from experiments.bench.process_memory import peak_of_process, peak_of_this_process
from experiments.bench.timing import median_ratio, seconds_in_turns
from experiments.progress import Advance

WRITE_ROUNDS = 5
READ_ROUNDS = 9
TORCH_ROUNDS = 3
SLICE_ITEMS = 2048


@dataclass(frozen=True)
class CacheBench:
    """Ratios, medians over rounds.

    Attributes:
        write_over_numpy_save: speed of writing over that of `numpy.save`.
        column_over_contiguous: time to read a column's stored bytes over that from a file that holds nothing else.
        column_over_contiguous_as_float32: the same, both converted to float32: what `read` does.
        column_as_float32_over_bytes: `read`, which converts, over reading the bytes alone, which are half as many.
        column_speedup_over_torch_save: time to get the column out of `torch.save`d batches over that to read it.
        peak_memory_4x: peak memory for all items over that for a quarter of them, each in a process of its own that
            writes a cache and iterates over it.
        n_items, n_layers, n_positions, d_model, n_bytes: what was written, in bfloat16.
        page_cache: its state for every read.
        seconds: every round's times, by contestant.
        peak_bytes: of the two processes.
    """

    write_over_numpy_save: float
    column_over_contiguous: float
    column_over_contiguous_as_float32: float
    column_as_float32_over_bytes: float
    column_speedup_over_torch_save: float
    peak_memory_4x: float
    n_items: int
    n_layers: int
    n_positions: int
    d_model: int
    n_bytes: int
    page_cache: str
    threads: int
    seconds: dict[str, list[dict[str, float]]]
    peak_bytes: list[int]

    def to_dict(self) -> dict[str, object]:
        """Everything, JSON-able."""
        return asdict(self)

    def lines(self) -> list[str]:
        """A table for a person."""
        rows = [
            ("writing speed over numpy.save", self.write_over_numpy_save),
            ("column over its bytes in a file alone", self.column_over_contiguous),
            ("  both as float32", self.column_over_contiguous_as_float32),
            ("  as float32, over bytes not converted", self.column_as_float32_over_bytes),
            ("column, speedup over torch.save", self.column_speedup_over_torch_save),
            ("peak memory, 4 times the items", self.peak_memory_4x),
        ]
        seconds = {
            name: median(turn[name] for turn in turns)
            for turns in self.seconds.values()
            for name in turns[0]
        }
        return [
            f"{self.n_items} items x {self.n_layers} layers x {self.n_positions} positions x "
            f"{self.d_model}, bfloat16, {self.n_bytes / 1e9:.2f} GB, {self.threads} threads, page cache "
            f"{self.page_cache}",
            "",
            *(f"  {name:<40}{ratio:8.2f}" for name, ratio in rows),
            "median seconds",
            *(f"  {name:<40}{value:8.3f}" for name, value in seconds.items()),
        ]


def bench_cache(
    n_items: int = 20_000,
    n_layers: int = 32,
    n_positions: int = 2,
    d_model: int = 1024,
    *,
    folder: Path | None = None,
    advance: Advance = lambda steps: None,
) -> CacheBench:
    """Measure in a new folder in `folder` (default: the system's temporary one); `advance` is told of `N_STEPS` steps.

    Raises:
        ValueError: a size that is not positive, or more positions than have names.
        OSError: the disk has too little room.
    """
    for name, value, most in (
        ("n_items", n_items, None),
        ("n_layers", n_layers, None),
        ("n_positions", n_positions, len(POSITIONS)),
        ("d_model", d_model, None),
    ):
        if value < 1 or (most is not None and value > most):
            raise ValueError(
                f"{name}: {value} is not {'at least 1' if value < 1 else f'at most {most}'}"
            )
    size = MadeUpActivations(n_items, n_layers, n_positions, d_model)
    with tempfile.TemporaryDirectory(prefix="bench-cache-", dir=folder) as name:
        work = Path(name)
        free, needed = shutil.disk_usage(work).free, 3 * size.n_bytes + 2**28
        if free < needed:
            raise OSError(
                f"folder: {work.parent} has {free / 1e9:.1f} GB free, the bench needs {needed / 1e9:.1f} GB; "
                "choose another folder or fewer items"
            )
        peaks = []
        for n in (max(n_items // 4, 1), n_items):
            peaks.append(
                _peak_of_child(
                    MadeUpActivations(n, n_layers, n_positions, d_model), work / "memory"
                )
            )
            advance(1)
        writing = _time_writing(size, work, advance)
        reading, loading = _time_reading(size, work, advance)
    return CacheBench(
        write_over_numpy_save=median_ratio(writing, "write numpy.save", "write cache"),
        column_over_contiguous=median_ratio(reading, "column cache stored", "column bytes"),
        column_as_float32_over_bytes=median_ratio(reading, "column cache", "column bytes"),
        column_over_contiguous_as_float32=median_ratio(
            reading, "column cache", "column bytes as float32"
        ),
        column_speedup_over_torch_save=median_ratio(loading, "column torch.load", "column cache"),
        peak_memory_4x=peaks[1] / peaks[0],
        **asdict(size),
        n_bytes=size.n_bytes,
        page_cache="warm",
        threads=torch.get_num_threads(),
        seconds={"writing": writing, "reading": reading, "loading": loading},
        peak_bytes=peaks,
    )


N_STEPS = 2 + WRITE_ROUNDS + 2 + READ_ROUNDS + TORCH_ROUNDS


def _time_writing(size: MadeUpActivations, work: Path, advance: Advance) -> list[dict[str, float]]:
    """Times of every round; the last cache stays.

    Both write a slice in turn, and fsync it: a disk may take the first gigabytes fast and the next slowly.
    """
    numbers = _stored(size)
    batches = list(size.batches())
    starts = range(0, size.n_items, SLICE_ITEMS)

    def save(start: int) -> None:
        with (work / f"numbers-{start}.npy").open("wb") as file:
            np.save(file, numbers[start : start + SLICE_ITEMS])
            file.flush()
            os.fsync(file.fileno())

    def append(cache: ActivationsCache, start: int) -> None:
        for batch in batches[start // BATCH_ITEMS : (start + SLICE_ITEMS) // BATCH_ITEMS]:
            cache.append(batch)
        cache.flush()

    rounds = []
    for _ in range(1 + WRITE_ROUNDS):
        shutil.rmtree(work / "cache", ignore_errors=True)
        with size.create(work / "cache") as cache:
            rounds += seconds_in_turns(
                [
                    {
                        "write numpy.save": [partial(save, start) for start in starts],
                        "write cache": [partial(append, cache, start) for start in starts],
                    }
                ]
            )
        for path in work.glob("numbers-*.npy"):
            path.unlink()
        advance(1)
    return rounds[1:]  # the first one warms up


def _time_reading(
    size: MadeUpActivations, work: Path, advance: Advance
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Times of a column from the cache and from a file alone; and from the cache and `torch.save`d batches."""
    cache = ActivationsCache.open(work / "cache")
    layer, position = size.n_layers // 2, cache.spec.positions[-1]
    alone = work / "column.bin"
    column = torch.from_numpy(cache.read("resid_post", layer=layer, position=position))
    column.to(torch.bfloat16).view(torch.int16).numpy().tofile(alone)
    saved = []
    for number, batch in enumerate(size.batches()):
        saved.append(work / f"batch-{number}.pt")
        torch.save(batch.sites["resid_post"].to(torch.bfloat16), saved[-1])
    advance(1)

    def read() -> object:
        return cache.read("resid_post", layer=layer, position=position)

    contents = Contents.load(work / "cache")

    def read_stored() -> object:
        result = np.empty((size.n_items, size.d_model), dtype=np.uint16)
        start = 0
        for shard in contents.holdings.shards[0]:
            stop = start + len(shard.ids)
            with open_columns(cache.path, contents.manifest, shard) as columns:
                result[start:stop] = columns.rows(("resid_post", layer, position), 0, stop - start)
            start = stop
        return result

    def bytes_alone() -> np.ndarray:
        return np.fromfile(alone, dtype=np.int16)

    def bytes_as_float32() -> object:
        return torch.from_numpy(bytes_alone()).view(torch.bfloat16).float()

    def load() -> object:
        index = cache.spec.positions.index(position)
        batches = (torch.load(path, weights_only=True)[:, layer, index] for path in saved)
        return torch.cat([batch.float() for batch in batches])

    reads: dict[str, list[Callable[[], object]]] = {
        "column cache": [read],
        "column cache stored": [read_stored],
        "column bytes": [bytes_alone],
        "column bytes as float32": [bytes_as_float32],
    }
    loads: dict[str, list[Callable[[], object]]] = {
        "column cache": [read],
        "column torch.load": [load],
    }
    reading, loading = [], []
    for number in range(-1, READ_ROUNDS):  # the first one warms up
        measured = seconds_in_turns([reads])
        if number >= 0:
            reading += measured
            advance(1)
    for _ in range(TORCH_ROUNDS):
        loading += seconds_in_turns([loads])
        advance(1)
    return reading, loading


def _stored(size: MadeUpActivations) -> np.ndarray:
    """The bfloat16 bits of all items `[item, layer, position, d_model]`."""
    shape = (size.n_items, size.n_layers, size.n_positions, size.d_model)
    numbers = np.empty(shape, dtype=np.int16)
    start = 0
    for batch in size.batches():
        states = batch.sites["resid_post"].to(torch.bfloat16)
        numbers[start : start + len(batch)] = states.view(torch.int16).numpy()
        start += len(batch)
    return numbers


def _peak_of_child(size: MadeUpActivations, folder: Path) -> int:
    """Peak memory, in bytes, of a new process that writes so many items and iterates over them."""
    try:
        return peak_of_process("experiments.bench.cache", str(folder), json.dumps(asdict(size)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _folder, _size = Path(sys.argv[1]), MadeUpActivations(**json.loads(sys.argv[2]))
    _size.write(_folder)
    assert sum(len(batch) for batch in ActivationsCache.open(_folder).iterate()) == _size.n_items
    sys.stdout.write(str(peak_of_this_process()))

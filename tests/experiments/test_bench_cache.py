"""The cache bench measures what it says, on a small scale, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.bench.cache import N_STEPS, bench_cache


def test_a_small_bench_reports_every_figure_and_deletes_its_files(tmp_path: Path) -> None:
    steps: list[int] = []
    bench = bench_cache(64, 2, 2, 16, folder=tmp_path, advance=steps.append)
    figures = bench.to_dict()
    for name in (
        "write_over_numpy_save",
        "column_over_contiguous",
        "column_over_contiguous_as_float32",
        "column_as_float32_over_bytes",
        "column_speedup_over_torch_save",
        "peak_memory_4x",
    ):
        assert figures[name] > 0
    assert bench.n_bytes == 64 * 2 * 2 * 16 * 2
    assert bench.peak_bytes[0] > 2**26
    assert sum(steps) == N_STEPS
    assert any("peak memory" in line for line in bench.lines())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 2, 2, 16), "n_items: 0 is not at least 1"),
        ((64, 2, 9, 16), "n_positions: 9 is not at most 4"),
    ],
)
def test_sizes_that_cannot_be(sizes: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bench_cache(*sizes)


def test_a_disk_that_is_too_small_is_refused_before_work(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"folder: .* GB free, the bench needs .* fewer items"):
        bench_cache(10**9, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []

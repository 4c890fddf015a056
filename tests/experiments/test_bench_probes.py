"""The probes bench measures what it says, on a small scale, and its sample is of the sweep that it names."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from experiments.bench.measured_sweep import C_GRID, Targets
from experiments.bench.probes import aurocs_in_sweep, bench_probes
from experiments.bench.sklearn_fits import Sample
from hooks import load_model
from probes import sweep
from tests.experiments import parity


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parity.save_tiny_model(tmp_path_factory.mktemp("model") / "tiny-llama")


@pytest.mark.slow
def test_a_small_bench_finds_what_scikit_learn_finds(
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from experiments.cli import _status

    file = tmp_path / "probes.json"
    sizes = ("--n", "120", "--permutations", "2", "--json", str(file))
    monkeypatch.setattr(
        sys, "argv", ["selfprobe", "bench", "probes", "--model", str(tiny_folder), *sizes]
    )
    assert _status() == 0
    assert "speedup over scikit-learn" in capsys.readouterr().out
    bench = json.loads(file.read_text())
    assert bench["n_items"] == 120
    n_layers = load_model(str(tiny_folder), device="cpu").n_layers
    assert bench["n_cells"] == 2 * n_layers
    assert bench["n_fits"] == bench["n_cells"] * 3 * 3 * 5 * len(C_GRID)
    assert bench["n_sampled"] >= bench["n_cells"] / 2 * 5 * len(C_GRID)
    assert bench["speedup_over"]["sklearn"] > 0
    # 24 held-out items a fold: a few of the 700 pairs may turn around.
    assert bench["max_auroc_difference"] < 0.005
    assert bench["n_not_converged"] == 0
    assert bench["peak_memory_bytes"] > 2**26
    assert 0.8 < bench["peak_memory_4x_layers"] < 1.5
    assert (bench["gpu"] is None) == ("gpu" not in bench["milliseconds_a_fit"])


def test_units_of_a_sample_are_even_over_c_and_point_into_the_sweep() -> None:
    rng = np.random.default_rng(0)
    groups = [f"{task}-{i // 2}" for task in ("refusal", "difficulty") for i in range(60)]
    targets = Targets.of(groups, ["x" * int(n) for n in rng.integers(1, 90, 120)], 3)
    arrays = {("resid_post", i, "prompt_last"): rng.normal(size=(120, 12)) for i in range(4)}
    sample = Sample.draw(rng, len(arrays), targets.columns.shape[:2], C_GRID)
    assert set(Counter(unit.C for unit in sample.units).values()) == {2}
    found = aurocs_in_sweep(
        sample,
        sweep(
            arrays,
            targets.by_name,
            groups=targets.groups,
            folds=targets.folds,
            penalties=C_GRID,
            n_permutations=3,
        ),
        3,
    )
    for unit, auroc in zip(sample.units, found, strict=True):
        alone = sweep(
            {("resid_post", 0, "x"): list(arrays.values())[unit.cell]},
            targets.columns[unit.target, unit.column],
            groups=targets.groups,
            folds=targets.folds,
            penalties=unit.C,
        )
        assert auroc == pytest.approx(alone.rows[0].auroc, abs=1e-3)


@pytest.mark.parametrize("n", [10, 5000])
def test_numbers_of_items_that_cannot_be(tiny_folder: Path, n: int) -> None:
    model = load_model(str(tiny_folder), device="cpu")
    with pytest.raises(ValueError, match=f"n: {n} is not between 100 and"):
        bench_probes(model, n_items=n)

"""The comparison: collect once, teach every cell, lay the results side by side.

A comparison that was killed goes on at the first cell that has no result; a training goes on at its last checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from experiments.progress import Advance, Reporter, Silent
from experiments.records import write_json, write_text
from experiments.self_prediction.cells import Cell, plan_cells
from experiments.self_prediction.config import READ_AT_PLACE, TRAINS_TRUNK, TeachConfig
from experiments.self_prediction.figure import write_comparison_figures
from experiments.self_prediction.folder import ComparisonFolder
from experiments.self_prediction.material import (
    Material,
    check_material,
    collect,
    loaded,
    open_material,
)
from experiments.self_prediction.splits import TooFewError
from experiments.self_prediction.table import results_of, table_markdown, table_rows
from experiments.self_prediction.taught import Teacher
from hooks import Model

_COST = 20
"""Of a cell that trains the model, in those that read: for the time that is left."""


def compare(
    config: TeachConfig,
    out: str | Path,
    *,
    reporter: Reporter | None = None,
    load: Callable[[str, str], Model] = loaded,
) -> dict[str, Any]:
    """Do what is not yet done in the folder `out`; returns what `results.json` holds.

    Args:
        config: what to compare.
        out: the folder.
        reporter: shows how far it is.
        load: from a model's name and dtype to the model; only with one worker another than the default.

    Raises:
        ValueError: anything wrong with the settings, the folder, the model or the items, before anything is trained.
        RuntimeError: work failed; the same call picks up what is finished.
    """
    shown = reporter or Silent()
    folder = ComparisonFolder(Path(out))
    folder.check(config)
    check_material(config)
    folder.claim(config)
    try:
        collect(config, folder.path, shown, load)
        cells = plan_cells(config)
        todo = [cell for cell in cells if not folder.is_finished(cell)]
        with shown.stage("comparison", sum(map(_cost, cells))) as advance:
            advance(sum(map(_cost, cells)) - sum(map(_cost, todo)))
            _do(config, folder, todo, advance, load)
        results = results_of(config, folder, open_material(config, folder.path))
        write_json(folder.results, results)
        write_text(folder.table, table_rows(results))
        write_text(folder.page, table_markdown(results))
        write_comparison_figures(results, folder.figures)
    finally:
        folder.lock.release()
    return results


def _cost(cell: Cell) -> int:
    return _COST if cell.method in TRAINS_TRUNK else 1


def _do(
    config: TeachConfig,
    folder: ComparisonFolder,
    todo: Sequence[Cell],
    advance: Advance,
    load: Callable[[str, str], Model],
) -> None:
    """Probes first, in this process: heads need to know where they read."""
    probes = [cell for cell in todo if cell.method == "probe"]
    others = [cell for cell in todo if cell.method != "probe"]
    alone = config.workers == 1
    if probes or (others and alone):
        material = open_material(config, folder.path)
        model = load(config.model, config.dtype)
        for cell in todo if alone else probes:
            do_cell(config, folder, cell, model, material)
            advance(_cost(cell))
    if others and not alone:
        for cell in _side_by_side(config, folder.path, others):
            advance(_cost(cell))


def _side_by_side(config: TeachConfig, out: Path, cells: Sequence[Cell]) -> Iterator[Cell]:
    """The cells as they are finished, the longest begun first."""
    threads = max(1, torch.get_num_threads() // config.workers)
    with ProcessPoolExecutor(
        config.workers, get_context("spawn"), initializer=torch.set_num_threads, initargs=(threads,)
    ) as pool:
        begun = {
            pool.submit(_do_in_worker, config, out, cell): cell
            for cell in sorted(cells, key=_cost, reverse=True)
        }
        try:
            for done in as_completed(begun):
                done.result()
                yield begun[done]
        except BrokenProcessPool:
            raise RuntimeError(
                "workers: one was ended from outside, perhaps for want of memory; give fewer workers, "
                "the same command picks up what is finished"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _do_in_worker(config: TeachConfig, out: Path, cell: Cell) -> None:
    model = loaded(config.model, config.dtype)
    do_cell(config, ComparisonFolder(out), cell, model, _opened(config, out))


@cache
def _opened(config: TeachConfig, out: Path) -> dict[str, Material]:
    return open_material(config, out)


def do_cell(
    config: TeachConfig,
    folder: ComparisonFolder,
    cell: Cell,
    model: Model,
    material: dict[str, Material],
) -> None:
    """Teach one cell and write its result; a control whose labels do not suffice is written down as left out."""
    place = None
    if cell.method in READ_AT_PLACE:
        probe = folder.read(cell.probe)
        if "skipped" in probe:
            folder.write(cell, {"skipped": probe["skipped"]})
            return
        site, layer, position = probe["place"]
        place = (site, layer, position)
    teacher = Teacher(config, cell, model, material, place, folder.work(cell))
    try:
        result = teacher.teach().to_json()
    except TooFewError as error:
        if cell.labels == "true":
            raise
        result = {"skipped": str(error)}
    machine = {"device": str(model.device), "threads": torch.get_num_threads()}
    folder.write(cell, {**result, **machine})

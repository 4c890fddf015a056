"""From prompts to a cache that a kill cannot harm: plan, open or make the cache, run what is missing."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from activations_cache import ActivationsCache, replace_file
from activations_cache.compression import Compression
from activations_cache.encoding import StorageDType
from experiments.progress import Reporter, Silent
from experiments.prompt_files import PromptRow
from hooks import CapturePlan, CaptureSpec, Kept, Model, Prompt, plan_capture


def capture_into(
    folder: str | Path,
    model: Model,
    prompts: Sequence[Prompt],
    spec: CaptureSpec,
    *,
    reporter: Reporter | None = None,
    stage: str = "capture",
    dtype: StorageDType = "bfloat16",
    extend: bool = False,
    compression: Compression | None = None,
    on_read: Callable[[Kept], None] | None = None,
    **settings: Any,
) -> ActivationsCache:
    """Capture prompts into the cache at `folder`, which is made or picked up where it stopped.

    A capture that is picked up runs the batches of its plan with the number of threads that it began with, and ends
    with the same values as one that was never stopped.

    Args:
        folder: of the cache.
        model, prompts, spec: as `plan_capture` takes them.
        reporter: shows how many items are captured, under the name `stage`.
        dtype: how a new cache stores values.
        extend: whether sites, layers or positions that the cache lacks are added to it, instead of refused.
        compression: of a new cache; see `ActivationsCache.create`.
        on_read: as `CapturePlan.run` takes it.
        settings: further arguments of `plan_capture`.

    Returns:
        The cache, closed for writing.

    Raises:
        ValueError: anything that differs from what the cache holds, or that cannot be captured, before work starts.
    """
    with _threads_of(folder):
        plan = plan_capture(model, prompts, spec, **settings)
        with _open(folder, plan, dtype, extend, compression) as cache:
            plan, done = replace(plan, spec=cache.spec), cache.done
            with (reporter or Silent()).stage(stage, len(prompts)) as advance:
                advance(sum(prompt.id in done for prompt in prompts))
                for activations in plan.run(done, on_read):
                    cache.append(activations)
                    advance(sum(id not in done for id in activations.ids))
    return cache


def _open(
    folder: str | Path,
    plan: CapturePlan,
    dtype: StorageDType,
    extend: bool,
    compression: Compression | None,
) -> ActivationsCache:
    fingerprint: Mapping[str, Any] = {**plan.model.fingerprint, **plan.fingerprint}
    if not ActivationsCache.exists(folder):
        return ActivationsCache.create(
            folder,
            fingerprint=fingerprint,
            spec=plan.spec,
            plan=plan.batches,
            dtype=dtype,
            compression=compression,
        )
    cache = ActivationsCache.open(
        folder, fingerprint=fingerprint, plan=plan.batches, spec=None if extend else plan.spec
    )
    _check_storage(cache, dtype, compression)
    if extend:
        cache.extend(plan.spec)
    return cache


def _check_storage(
    cache: ActivationsCache, dtype: StorageDType, compression: Compression | None
) -> None:
    for name, there, asked in (
        ("storage", cache.dtype, dtype),
        ("compression", cache.compression, compression),
    ):
        if there != asked:
            raise ValueError(
                f"{name}: cache {cache.path} is kept in {there}, {asked} was asked for; "
                f"ask for {there}, or capture into a new folder"
            )


@contextmanager
def _threads_of(folder: str | Path) -> Iterator[None]:
    """Run with the number of threads that the cache at `folder` was begun with."""
    before = torch.get_num_threads()
    if ActivationsCache.exists(folder):
        begun = ActivationsCache.open(folder).fingerprint.get("threads")
        if isinstance(begun, int):
            torch.set_num_threads(begun)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def write_groups(folder: Path, rows: Sequence[PromptRow]) -> None:
    """Write the ids and groups of a cache's prompts beside them, as `prompts.csv`.

    A file that is there is left alone: its user may have added labels.

    Raises:
        ValueError: the file that is there gives prompts other groups.
    """
    path = folder / "prompts.csv"
    if path.exists():
        with path.open(encoding="utf-8-sig", newline="") as file:
            held = {row.get("id"): row.get("group") for row in csv.DictReader(file)}
        for row in rows:
            if held.get(row.prompt.id) != row.group:
                raise ValueError(
                    f"group: {path} gives {row.prompt.id!r} the group {held.get(row.prompt.id)!r}, not "
                    f"{row.group!r}; mend or delete that file (the activations are safe)"
                )
        return
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(("id", "group"))
    writer.writerows((row.prompt.id, row.group) for row in rows)
    replace_file(path, lines.getvalue().encode())

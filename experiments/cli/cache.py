"""`selfprobe cache`: what is in a cache of activations, is it whole, and mend it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.app import JsonFlag, app

if TYPE_CHECKING:
    from activations_cache import ActivationsCache

cache_app = typer.Typer(help="Look into a cache of activations, check it, mend it.")
app.add_typer(cache_app, name="cache")

Folder = Annotated[Path, typer.Argument(help="The cache's folder.", metavar="CACHE")]


@cache_app.command(epilog="Example:\n\n`selfprobe cache info runs/quickstart/cache/task`")
def info(folder: Folder, as_json: JsonFlag = False) -> None:
    """Print what a cache holds, and what it is still to hold."""
    from activations_cache import ActivationsCache

    held = _describe(ActivationsCache.open(folder))
    if as_json:
        print(json.dumps(held, indent=2, ensure_ascii=False))
        return
    fingerprint = held.pop("fingerprint")
    for name, value in held.items():
        print(f"{name:<12} {_in_words(value)}")
    print("fingerprint")
    for name, value in fingerprint.items():
        print(f"  {name:<24} {_in_words(value)}")


@cache_app.command(epilog="Example:\n\n`selfprobe cache verify runs/quickstart/cache/task`")
def verify(folder: Folder, as_json: JsonFlag = False) -> None:
    """Read every byte and compare it with what was written; exit status 1 where something is wrong."""
    from activations_cache import verify as verify_cache

    report = verify_cache(folder)
    if as_json:
        problems = [vars(problem) for problem in report.problems]
        print(json.dumps({**vars(report), "path": str(folder), "problems": problems}, indent=2))
    else:
        for problem in report.problems:
            print(problem)
        print(
            f"{report.n_shards} shards, {report.n_bytes} bytes, {report.n_items} items"
            + (f" of {report.n_planned}" if report.n_planned is not None else "")
            + ("; being written" if report.being_written else "")
        )
    if report.problems:
        n = len(report.problems)
        if any(problem.kind == "unusable" for problem in report.problems):
            raise RuntimeError(f"{folder} cannot be used; restore it, or capture into a new folder")
        raise RuntimeError(
            f"{n} {'problem' if n == 1 else 'problems'} in {folder}; `selfprobe cache repair {folder}` "
            "sets damaged shards aside, then the same capture again brings back what is missing"
        )


@cache_app.command(
    epilog="Examples:\n\n`selfprobe cache repair runs/quickstart/cache/task`\n\n"
    "`selfprobe cache repair runs/quickstart/cache/task --delete`"
)
def repair(
    folder: Folder,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete damaged shards; default: move into damaged/.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Set aside what is damaged or left over, so that the same capture run again brings it back."""
    from activations_cache import repair as repair_cache

    done = repair_cache(folder, delete=delete)
    if as_json:
        print(json.dumps({**vars(done), "path": str(folder)}, indent=2))
        return
    for name in done.dropped:
        print(f"{name}: no longer listed")
    for name in done.set_aside:
        print(f"{name}: moved into {folder / 'damaged'}")
    for name in done.removed:
        print(f"{name}: removed")
    print(f"{done.n_items} items are to be captured: run the same capture again")


def _describe(cache: ActivationsCache) -> dict[str, Any]:
    plan = cache.plan
    wanted = len(cache) if plan is None else sum(map(len, plan))
    return {
        "path": str(cache.path),
        "items": len(cache),
        "planned": None if plan is None else wanted,
        "unfinished": wanted - len(cache.done),
        "sites": list(cache.spec.sites),
        "layers": cache.spec.layers,
        "positions": list(cache.spec.positions),
        "cells": len(cache.cells()),
        "options": list(cache.options),
        "d_model": cache.d_model,
        "dtype": cache.dtype,
        "compression": cache.compression,
        "bytes": sum(
            path.lstat().st_size
            for path in cache.path.rglob("*")
            if path.is_file() and not path.is_symlink()
        ),
        "fingerprint": dict(cache.fingerprint),
    }


def _in_words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)

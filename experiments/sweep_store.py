"""A probe sweep that survives being killed: finished cells are kept in a JSON Lines file beside it.

The first line says which sweep the file belongs to, by a digest of all that its numbers depend on; every further line
holds a finished cell. A line counts once it has reached the disk, and what a kill left of the last one is dropped.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from activations_cache import ActivationsCache, Cell
from experiments.records import append_rows, read_whole_rows
from probes import SweepResult, SweepRow, sweep
from probes.sweep_result import Outcome

FORMAT = 1
_FLOATS = frozenset(field.name for field in fields(SweepRow) if field.type == "float")


class JsonLinesStore:
    """The finished cells of one sweep in a file (a `probes.SweepStore`).

    Numbers come back bit for bit: JSON holds every float64 as its shortest exact decimal.

    Args:
        path: of the file; made with its folder where there is none.
        digest: of the sweep (`sweep_digest`).

    Raises ValueError for the file of another sweep, and for a damaged one.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self.path = path
        self._finished: dict[Cell, SweepResult] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lines = read_whole_rows(path)
            if not lines:
                append_rows(path, [{"format": FORMAT, "sweep": digest}])
                return
            header, *cells = lines
            found = header["format"], header["sweep"]
            self._finished = dict(_read_cell(line) for line in cells)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(
                f"store: {path} is damaged or no store of a sweep; remove it, or give another file"
            ) from None
        if found != (FORMAT, digest):
            raise ValueError(
                f"store: {path} belongs to another sweep (other labels, folds, probe, penalties, seed or cache); "
                "give another file, or remove it to start anew"
            )

    def get(self, cell: Cell) -> SweepResult | None:
        """The rows of a finished cell, or None."""
        return self._finished.get(cell)

    def put(self, cell: Cell, result: SweepResult) -> None:
        """Append a finished cell; it is on the disk when this returns."""
        append_rows(
            self.path,
            [
                {
                    "cell": list(cell),
                    "outcome": result.outcome,
                    "rows": [_without_nan(asdict(row)) for row in result.rows],
                    "null": [[_or_none(value) for value in row] for row in result.null.tolist()],
                }
            ],
        )
        self._finished[cell] = result


def stored_sweep(
    path: Path,
    cache: ActivationsCache,
    y: ArrayLike | Mapping[str, ArrayLike],
    *,
    groups: ArrayLike,
    probe: str | BaseEstimator = "logistic",
    outcome: Outcome = "binary",
    **settings: Any,
) -> SweepResult:
    """`probes.sweep` of a cache, its finished cells kept in `path`: called again after a kill, it goes on.

    The result is that of a sweep that was never stopped, bit for bit.

    Args:
        path: of the store.
        cache, y, groups, probe, outcome: as in `probes.sweep`.
        settings: its other keywords, but for `store`.

    Raises ValueError as `probes.sweep` and `JsonLinesStore` do, and while another process writes to `path`.
    """
    shaping = {name: value for name, value in settings.items() if name != "progress"}
    digest = sweep_digest(
        cache, y, groups=groups, probe=probe, settings=shaping | {"outcome": outcome}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path.with_name(path.name + ".lock"), timeout=0):
            store = JsonLinesStore(path, digest)
            return sweep(
                cache, y, groups=groups, probe=probe, outcome=outcome, store=store, **settings
            )
    except Timeout:
        raise ValueError(
            f"store: another process is writing to {path}; wait for it, or give another file"
        ) from None


def sweep_digest(
    cache: ActivationsCache,
    y: ArrayLike | Mapping[str, ArrayLike],
    *,
    groups: ArrayLike,
    probe: str | BaseEstimator,
    settings: Mapping[str, Any],
) -> str:
    """What a sweep's numbers depend on, as a hash: the cache's fingerprint and ids, labels, groups, settings."""
    described = {
        "fingerprint": dict(cache.fingerprint),
        "ids": list(cache.ids),
        "y": dict(y) if isinstance(y, Mapping) else {"y": y},
        "groups": groups,
        "probe": probe
        if isinstance(probe, str)
        else [type(probe).__qualname__, probe.get_params()],
        "settings": dict(settings),
    }
    text = json.dumps(described, sort_keys=True, default=_as_json)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _as_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def _read_cell(line: Mapping[str, Any]) -> tuple[Cell, SweepResult]:
    site, layer, position = line["cell"]
    rows = tuple(SweepRow(**_with_nan(row)) for row in line["rows"])
    null = np.array(line["null"], dtype=np.float64)
    return (site, layer, position), SweepResult(line["outcome"], rows, null)


def _with_nan(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: math.nan if v is None and k in _FLOATS else v for k, v in row.items()}


def _without_nan(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _or_none(v) if k in _FLOATS else v for k, v in row.items()}


def _or_none(value: float) -> float | None:
    """None where JSON has no number."""
    return None if math.isnan(value) else value

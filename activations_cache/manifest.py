"""The manifest: what a cache is to hold, in one JSON file; which shards hold it is in the journal.

{"schema": 2, "fingerprint": {...}, "dtype": "bfloat16", "compression": null,
 "shard_rows": 512, "d_model": 576, "options": [...],         these two null until the first shard
 "parts": [{"sites": [...], "layers": [...] or "all", "positions": [...]}, ...],
 "plan": {"file": "plan.json", "sha256": "...", "batches": 12, "items": 480} or null}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from activations_cache.atomic import DamagedFileError, read_regular, replace_file
from activations_cache.compression import COMPRESSIONS, Compression, require_hdf5plugin
from activations_cache.documents import MAX_WIDTH, Count, Document, Sha256
from activations_cache.encoding import STORAGE_DTYPES, StorageDType
from activations_cache.parts import cells_of, check_rectangle, resolve, union
from hooks.activations import CaptureSpec

SCHEMA = 2
FILE_NAME = "manifest.json"


class _Version(Document):
    version: int = Field(alias="schema")


class _Part(Document):
    sites: tuple[str, ...]
    layers: Literal["all"] | tuple[Annotated[int, Field(ge=-(2**15), lt=2**15)], ...]
    positions: tuple[str, ...]


class _Plan(Document):
    file: Literal["plan.json"]
    sha256: Sha256
    batches: Count
    items: Count


class _File(Document):
    """The file as it is written."""

    fingerprint: dict[str, JsonValue]
    dtype: StorageDType
    compression: Compression | None
    shard_rows: Annotated[int, Field(ge=1)]
    d_model: Annotated[int, Field(ge=1, le=MAX_WIDTH)] | None
    options: tuple[str, ...] | None
    parts: Annotated[tuple[_Part, ...], Field(min_length=1)]
    plan: _Plan | None


@dataclass(frozen=True)
class Manifest:
    """What a cache is to hold; a change makes a new one, and `save` puts it in the old one's place.

    Layers that are "all", `d_model` and `options` are settled by the first activations appended.
    """

    fingerprint: Mapping[str, Any]
    parts: tuple[CaptureSpec, ...]
    dtype: StorageDType
    shard_rows: int
    compression: Compression | None = None
    plan: Mapping[str, Any] | None = None
    d_model: int | None = None
    options: tuple[str, ...] | None = None

    @property
    def spec(self) -> CaptureSpec:
        """All sites, layers and positions that the cache is to hold."""
        return union(self.parts)

    def save(self, folder: Path) -> None:
        """Put this in the place of the manifest in `folder`, atomically."""
        document = {"schema": SCHEMA, **asdict(self)}
        replace_file(folder / FILE_NAME, json.dumps(document, indent=1).encode())

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest of a cache folder.

        Raises ValueError where there is none, where it is damaged or written by another schema
        version.
        """
        path = folder / FILE_NAME
        try:
            data = read_regular(path)
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(
                f"no activations cache at {folder}: it has no {FILE_NAME}; make one with "
                "ActivationsCache.create"
            ) from None
        try:
            schema = _Version.parse(data).version
        except ValueError as error:
            raise DamagedFileError(path, f"is damaged ({error!s:.200})") from None
        if schema != SCHEMA:
            raise ValueError(
                f"schema: {path} is version {schema}, this selfprobe reads version {SCHEMA}; "
                "capture into a new folder, or read it with the selfprobe that wrote it"
            )
        try:
            written = _File.parse(data)
            parts = tuple(
                CaptureSpec(part.sites, part.layers, part.positions) for part in written.parts
            )
            check_rectangle(parts)
        except ValueError as error:
            raise DamagedFileError(path, f"is damaged ({error!s:.200})") from None
        return cls(
            fingerprint=written.fingerprint,
            parts=parts,
            dtype=written.dtype,
            shard_rows=written.shard_rows,
            compression=written.compression,
            plan=None if written.plan is None else written.plan.model_dump(),
            d_model=written.d_model,
            options=written.options,
        )


def new_manifest(
    fingerprint: Mapping[str, Any],
    spec: CaptureSpec,
    dtype: StorageDType,
    shard_rows: int,
    compression: Compression | None,
) -> Manifest:
    """The manifest of an empty cache; ValueError names a field that cannot be stored."""
    if dtype not in STORAGE_DTYPES:
        raise ValueError(
            f"dtype: {dtype!r} cannot be stored; use one of {', '.join(STORAGE_DTYPES)}"
        )
    if shard_rows < 1:
        raise ValueError(f"shard_rows: {shard_rows} is not at least 1")
    if compression is not None:
        if compression not in COMPRESSIONS:
            raise ValueError(
                f"compression: unknown {compression!r}; use None, {' or '.join(COMPRESSIONS)}"
            )
        require_hdf5plugin()
    return Manifest(
        fingerprint=as_stored(fingerprint),
        parts=(resolve(spec, fingerprint),),
        dtype=dtype,
        shard_rows=shard_rows,
        compression=compression,
    )


def as_stored(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """A fingerprint as it comes back from JSON (tuples as lists), so that two of them compare."""
    for field, value in fingerprint.items():
        try:
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError) as error:
            raise ValueError(f"fingerprint.{field}: {value!r} has no JSON form: {error}") from None
    stored: dict[str, Any] = json.loads(json.dumps(dict(fingerprint)))
    return stored


def check_fingerprint(stored: Mapping[str, Any], wanted: Mapping[str, Any], folder: Path) -> None:
    """Raise ValueError naming every field in which the two fingerprints differ."""
    wanted = as_stored(wanted)
    absent = "(absent)"
    differences = [
        f"{field} is {stored.get(field, absent)!r} there and {wanted.get(field, absent)!r} here"
        for field in sorted(stored.keys() | wanted.keys())
        if stored.get(field, absent) != wanted.get(field, absent)
    ]
    if differences:
        raise ValueError(
            f"fingerprint: cache {folder} was captured otherwise: {'; '.join(differences)}; "
            "use the same model and settings, or capture into a new folder"
        )


def check_spec(manifest: Manifest, wanted: CaptureSpec, folder: Path) -> None:
    """Raise ValueError naming the sites, layers and positions in which a spec differs."""
    stored, wanted = manifest.spec, resolve(wanted, manifest.fingerprint)
    # Sites without layers make the layers of a spec mean nothing, so cells are what counts.
    if (stored.layers == "all") == (wanted.layers == "all") and set(cells_of(stored)) == set(
        cells_of(wanted)
    ):
        return
    differences = []
    for field in ("sites", "layers", "positions"):
        there, here = getattr(stored, field), getattr(wanted, field)
        if isinstance(there, str) or isinstance(here, str):
            if there != here:
                differences.append(f"{field} are {there!r} there and {here!r} here")
            continue
        for names, place in (
            ([name for name in here if name not in there], "only here"),
            ([name for name in there if name not in here], "only there"),
        ):
            if names:
                differences.append(f"{field} {place}: {', '.join(map(str, names))}")
    if differences:
        raise ValueError(
            f"spec: cache {folder} holds another one ({'; '.join(differences)}); extend it (on the "
            "command line by --extend), or capture into a new folder"
        )

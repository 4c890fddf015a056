"""The manifest: what a cache holds and which shards make it up, in one JSON file.

`manifest.json` is the truth about a cache: a shard that it does not list does not belong to it.

    {"schema": 1, "fingerprint": {...}, "dtype": "bfloat16", "shard_rows": 256,
     "spec": {"sites": [...], "layers": [...] or "all", "positions": [...]},
     "d_model": 576, "options": [...],                     null until the first shard
     "shards": [{"file": "shard-000000.h5", "bytes": 123, "sha256": "...", "ids": [...]}, ...]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from activations_cache.atomic import replace_file
from activations_cache.encoding import STORAGE_DTYPES, StorageDType
from hooks.activations import CaptureSpec

SCHEMA = 1
FILE_NAME = "manifest.json"


@dataclass(frozen=True)
class ShardRecord:
    """A committed shard: file name, size in bytes, checksum, and item ids in row order."""

    file: str
    bytes: int
    sha256: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    """What a cache holds; a change makes a new one, and `save` puts it in the old one's place.

    `spec.layers`, `d_model` and `options` are settled by the first activations that are appended.
    """

    fingerprint: Mapping[str, Any]
    spec: CaptureSpec
    dtype: StorageDType
    shard_rows: int
    d_model: int | None = None
    options: tuple[str, ...] | None = None
    shards: tuple[ShardRecord, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all committed items, in storage order."""
        return tuple(item for shard in self.shards for item in shard.ids)

    def with_shard(self, shard: ShardRecord) -> Manifest:
        """The same with one more shard."""
        return replace(self, shards=(*self.shards, shard))

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
            document = json.loads(path.read_bytes())
            schema = document["schema"]
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(
                f"no activations cache at {folder}: it has no {FILE_NAME}; make one with "
                "ActivationsCache.create"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is damaged ({error}); capture into a new folder") from None
        if schema != SCHEMA:
            raise ValueError(
                f"schema: {path} is version {schema}, this selfprobe reads version {SCHEMA}; "
                "capture into a new folder"
            )
        try:
            return cls._from_document(document)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is damaged (field {error}); capture into a new folder"
            ) from None

    @classmethod
    def _from_document(cls, document: Mapping[str, Any]) -> Manifest:
        spec = document["spec"]
        layers, options = spec["layers"], document["options"]
        return cls(
            fingerprint=document["fingerprint"],
            spec=CaptureSpec(
                sites=tuple(spec["sites"]),
                layers=layers if layers == "all" else tuple(layers),
                positions=tuple(spec["positions"]),
            ),
            dtype=document["dtype"],
            shard_rows=document["shard_rows"],
            d_model=document["d_model"],
            options=None if options is None else tuple(options),
            shards=tuple(
                ShardRecord(shard["file"], shard["bytes"], shard["sha256"], tuple(shard["ids"]))
                for shard in document["shards"]
            ),
        )


def new_manifest(
    fingerprint: Mapping[str, Any], spec: CaptureSpec, dtype: StorageDType, shard_rows: int
) -> Manifest:
    """The manifest of an empty cache; ValueError names a field that cannot be stored."""
    if dtype not in STORAGE_DTYPES:
        raise ValueError(
            f"dtype: {dtype!r} cannot be stored; use one of {', '.join(STORAGE_DTYPES)} (residuals "
            "above 65,504 would become infinite in float16)"
        )
    if shard_rows < 1:
        raise ValueError(f"shard_rows: {shard_rows} is not at least 1")
    return Manifest(as_stored(fingerprint), spec, dtype, shard_rows)


def as_stored(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """A fingerprint as it comes back from JSON (tuples as lists), so that two of them compare."""
    for field, value in fingerprint.items():
        try:
            json.dumps(value, allow_nan=False)
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

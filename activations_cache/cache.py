"""The cache as its users see it: create or open, append batches, read one column as a matrix."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from jaxtyping import Float32, Int

from activations_cache.encoding import StorageDType
from activations_cache.manifest import FILE_NAME, Manifest, check_fingerprint, new_manifest
from activations_cache.shard import read_option, read_rows
from activations_cache.writer import LOCK_NAME, Writer
from hooks.activations import LAYERLESS_SITES, Activations, CaptureSpec

Rows = Int[np.ndarray, "row"]
Cell = tuple[str, int | None, str]

_RESTORE = "restore it from a copy, or capture again into a new folder"


class ActivationsCache:
    """Activations of many items in a folder; made by `create` or `open`.

        with ActivationsCache.create(path, fingerprint=model.fingerprint, spec=spec) as cache:
            for activations in capture(model, prompts, spec):
                cache.append(activations)
        X = cache.read("resid_post", layer=12, position="prompt_last")      # float32 [n, d_model]

    Opening takes no lock: any number of processes read. The first `append` makes a process the one
    writer, until `close`. Files are opened for each call, so that no HDF5 handle crosses a fork.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        # A notebook drops caches without closing them: what was appended is committed and the lock
        # given back.
        weakref.finalize(self, writer.abandon)

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        fingerprint: Mapping[str, Any],
        spec: CaptureSpec,
        dtype: StorageDType = "bfloat16",
        shard_rows: int = 256,
    ) -> Self:
        """Make an empty cache in the folder `path` and become its writer.

        Args:
            path: a folder that is empty or does not exist.
            fingerprint: what the activations depend on (model, weights, tokenizer, ...), flat and
                JSON-able. Its `n_layers`, if present, resolves and checks `spec.layers`.
            spec: the sites, layers and positions that every batch will have.
            dtype: how activations are stored: "bfloat16" (rounded) or "float32" (exact).
            shard_rows: a shard is written once it has so many items, or 128 MiB; a process that is
                killed loses at most that.

        Raises:
            ValueError: the folder is not empty or cannot be written, or an argument cannot be
                stored.
            CacheLockedError: another process is making a cache there.
        """
        folder = Path(path)
        if cls.exists(folder):
            raise ValueError(f"path: {folder} holds a cache already; use ActivationsCache.open")
        if folder.is_dir() and any(path.name != LOCK_NAME for path in folder.iterdir()):
            raise ValueError(f"path: {folder} is not empty; choose a new folder")
        if "n_layers" in fingerprint:
            spec = spec.resolve(fingerprint["n_layers"])
        manifest = new_manifest(fingerprint, spec, dtype, shard_rows)
        writer = Writer(folder, manifest)
        try:
            writer.lock()
            if cls.exists(folder):
                writer.abandon()
                raise ValueError(f"path: another process has just made a cache at {folder}")
            manifest.save(folder)
        except OSError as error:
            writer.abandon()
            raise ValueError(
                f"path: cannot write to {folder}: {error.strerror}; choose another folder"
            ) from None
        return cls(writer)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Whether there is a cache in the folder `path`."""
        return (Path(path) / FILE_NAME).is_file()

    @classmethod
    def open(cls, path: str | Path, *, fingerprint: Mapping[str, Any] | None = None) -> Self:
        """Open an existing cache, to read it or to append what is missing.

        Args:
            path: the cache folder.
            fingerprint: what the caller would capture with; must equal the stored one.

        Raises:
            ValueError: no cache there, another schema version, a damaged manifest, a shard that is
                missing or has another size than was committed, or a fingerprint that differs
                (naming the fields).
        """
        folder = Path(path)
        manifest = Manifest.load(folder)
        if fingerprint is not None:
            check_fingerprint(manifest.fingerprint, fingerprint, folder)
        for shard in manifest.shards:
            file = folder / shard.file
            size = file.stat().st_size if file.exists() else None
            if size != shard.bytes:
                state = "is missing" if size is None else f"has {size} of {shard.bytes} bytes"
                raise ValueError(f"shard {file} {state}; {_RESTORE}")
        return cls(Writer(folder, manifest))

    @property
    def path(self) -> Path:
        """The cache folder."""
        return self._writer.folder

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What the activations depend on, as given to `create`."""
        return self._writer.manifest.fingerprint

    @property
    def spec(self) -> CaptureSpec:
        """Sites, layers and positions; layers are explicit once they are known."""
        return self._writer.manifest.spec

    @property
    def dtype(self) -> StorageDType:
        """How activations are stored."""
        return self._writer.manifest.dtype

    @property
    def ids(self) -> tuple[str, ...]:
        """All item ids, committed or buffered, in storage order."""
        return self._writer.ids

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options whose log-probabilities are stored, sorted."""
        return self._writer.manifest.options or ()

    def __len__(self) -> int:
        """The number of items, committed or buffered."""
        return len(self.ids)

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Those of `ids` that the cache does not hold, in their order."""
        present = set(self.ids)
        return [item for item in ids if item not in present]

    def cells(self) -> list[Cell]:
        """Every (site, layer, position) that `read` takes; the layer is None where a site has none.

        Sites with layers are absent while `spec.layers` is still "all" and nothing was appended.
        """
        return [
            (site, layer, position)
            for site in self.spec.sites
            for layer in self._layers_of(site)
            for position in self.spec.positions
        ]

    def append(self, activations: Activations) -> None:
        """Add a batch; it is on disk after the shard that it falls into is full, or after `flush`.

        Raises:
            CacheLockedError: another process writes to this cache.
            ValueError: an id that the cache holds already, or a batch of other sites, layers,
                positions, width or options than the cache; names the field. Nothing of the batch is
                added.
            NonFiniteError: an infinity or a NaN, naming item, site, layer and position. Nothing is
                added.
            OSError: the disk is full; committed items are safe.
        """
        self._writer.append(activations)

    def flush(self) -> None:
        """Commit what was appended: on disk and fsynced when this returns."""
        self._writer.commit()

    def close(self) -> None:
        """Commit what was appended and give the writer's place back; reading still works."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._writer.close()
        finally:
            self._writer.abandon()

    def read(
        self,
        site: str,
        *,
        layer: int | None = None,
        position: str,
        ids: Sequence[str] | None = None,
    ) -> Float32[np.ndarray, "item d_model"]:
        """One site, layer and position of the items `ids`, in their order (default: `self.ids`).

        Commits first what was appended. Reads no other column, whatever the size of the cache.

        Raises:
            ValueError: a site, layer, position or id that the cache does not hold, naming those
                that it does; or a damaged shard.
        """
        spec = self.spec
        at = (
            _index("site", site, spec.sites),
            _index("layer", layer, self._layers_of(site)),
            _index("position", position, spec.positions),
        )
        self.flush()
        return self._gather(
            ids,
            (self._writer.manifest.d_model or 0,),
            lambda file, rows: read_rows(file, site, at[1], at[2], rows),
        )

    def read_options(
        self, name: str, ids: Sequence[str] | None = None
    ) -> Float32[np.ndarray, "item"]:
        """Log-probabilities of an option at the answer slots of `ids` (default: `self.ids`).

        Raises ValueError as `read` does.
        """
        option = _index("option", name, self.options)
        self.flush()
        return self._gather(ids, (), lambda file, rows: read_option(file, option, rows))

    def _layers_of(self, site: str) -> tuple[int | None, ...]:
        if site in LAYERLESS_SITES:
            return (None,)
        return () if isinstance(self.spec.layers, str) else self.spec.layers

    def _gather(
        self,
        ids: Sequence[str] | None,
        width: tuple[int, ...],
        read: Callable[[Path, Rows], np.ndarray],
    ) -> np.ndarray:
        """Collect rows from the shards that hold them; each such shard is opened once."""
        wanted = self.ids if ids is None else ids
        place = {item: row for row, item in enumerate(self.ids)}
        unknown = [item for item in wanted if item not in place]
        if unknown:
            raise ValueError(
                f"ids: the cache does not hold {unknown[0]!r} ({len(unknown)} of {len(wanted)} are "
                f"unknown); it has {len(place)} items{_examples(self.ids)}"
            )
        rows = np.array([place[item] for item in wanted], dtype=np.int64)
        result = np.empty((len(rows), *width), dtype=np.float32)
        start = 0
        for shard in self._writer.manifest.shards:
            here = np.flatnonzero((rows >= start) & (rows < start + len(shard.ids)))
            if len(here):
                file = self.path / shard.file
                try:
                    result[here] = read(file, rows[here] - start)
                except (OSError, KeyError) as error:
                    raise ValueError(
                        f"shard {file} cannot be read ({error}); {_RESTORE}"
                    ) from error
            start += len(shard.ids)
        return result


def _index(field: str, value: object, allowed: Sequence[object]) -> int:
    if value not in allowed:
        names = ", ".join(map(str, allowed)) or "none"
        raise ValueError(f"{field}: the cache does not hold {value!r}; it has {names}")
    return allowed.index(value)


def _examples(ids: Sequence[str]) -> str:
    if not ids:
        return ""
    return f", for example {', '.join(map(repr, ids[:3]))}"

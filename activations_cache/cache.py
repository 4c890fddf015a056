"""The cache as its users see it: create or open, append batches, read one column as a matrix."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from jaxtyping import Float32

from activations_cache.compression import Compression
from activations_cache.contents import Contents
from activations_cache.encoding import StorageDType
from activations_cache.holdings import Holdings
from activations_cache.manifest import FILE_NAME, Manifest, new_manifest
from activations_cache.parts import Cell, cells_of
from activations_cache.plan import BatchPlan
from activations_cache.reader import Reader
from activations_cache.writer import Writer
from hooks.activations import Activations, CaptureSpec


class ActivationsCache:
    """Activations of many items in a folder; made by `create` or `open`.

        with ActivationsCache.create(path, fingerprint=model.fingerprint, spec=spec) as cache:
            for activations in capture(model, prompts, spec):
                cache.append(activations)
        X = cache.read("resid_post", layer=12, position="prompt_last")      # float32 [n, d_model]

    Opening takes no lock: any number of processes read. The first `append` makes a process the one
    writer, until `close`. Files are opened for each call, so that no handle crosses a fork.
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
        plan: Sequence[Sequence[str]] | None = None,
        compression: Compression | None = None,
        shard_rows: int = 512,
    ) -> Self:
        """Make an empty cache in the folder `path` and become its writer.

        Args:
            path: a folder that is empty or does not exist.
            fingerprint: what the activations depend on (model, weights, tokenizer, ...), flat and
                JSON-able. Its `n_layers`, if present, resolves and checks `spec.layers`.
            spec: the sites, layers and positions that every batch will have.
            dtype: how activations are stored: "bfloat16" (rounded), "float32" (exact), or "float16"
                (rounded; values above 65,504 are refused).
            plan: the ids of every batch, in the order in which they run. `append` then takes these
                batches alone, and `ids` follow the plan whatever order they came in.
            compression: "zstd" or "lz4", with the package hdf5plugin. Reading is slower.
            shard_rows: a shard is written once it has so many items, or 64 MiB; a process that is
                killed loses that and what was being written.

        Raises:
            ValueError: the folder is not empty or cannot be written, or a bad argument.
            ImportError: `compression` without hdf5plugin.
            CacheLockedError: another process is making a cache there.
        """
        manifest = new_manifest(fingerprint, spec, dtype, shard_rows, compression)
        batches = None if plan is None else BatchPlan.of(plan)
        writer = Writer(Path(path), Contents(manifest, batches, Holdings(1, (), batches)))
        writer.create()
        return cls(writer)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Whether there is a cache in the folder `path`."""
        return (Path(path) / FILE_NAME).is_file()

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        fingerprint: Mapping[str, Any] | None = None,
        spec: CaptureSpec | None = None,
        plan: Sequence[Sequence[str]] | None = None,
    ) -> Self:
        """Open an existing cache, to read it or to append what is missing.

        Args:
            path: the cache folder.
            fingerprint: what the caller would capture with; must equal the stored one.
            spec: what the caller would capture; must equal `cache.spec`.
            plan: the batches that the caller would run; must equal those the cache was made with.

        Raises:
            ValueError: no cache there, another schema version, a damaged file, a shard that is
                missing or has another size than was committed; or a fingerprint, spec or plan that
                differs, saying in what.
        """
        folder = Path(path)
        contents = Contents.load(folder)
        contents.check(folder, fingerprint, spec, plan)
        return cls(Writer(folder, contents))

    @property
    def path(self) -> Path:
        """The cache folder."""
        return self._writer.folder

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What the activations depend on, as given to `create`."""
        return self._manifest.fingerprint

    @property
    def spec(self) -> CaptureSpec:
        """Sites, layers and positions wanted; layers are explicit once they are known."""
        return self._manifest.spec

    @property
    def dtype(self) -> StorageDType:
        """How activations are stored."""
        return self._manifest.dtype

    @property
    def compression(self) -> Compression | None:
        """How shards are compressed, if they are."""
        return self._manifest.compression

    @property
    def d_model(self) -> int | None:
        """The width of the activations; None until the first batch."""
        return self._manifest.d_model

    @property
    def plan(self) -> tuple[tuple[str, ...], ...] | None:
        """The ids of every batch, if the cache was made with a plan."""
        plan = self._writer.contents.plan
        return None if plan is None else plan.batches

    @property
    def ids(self) -> tuple[str, ...]:
        """All item ids, committed or buffered: in the order of the plan, else in that they came in."""
        return self._holdings.ids

    @property
    def done(self) -> frozenset[str]:
        """Ids that need not be captured any more: every wanted cell of them is held."""
        return self._holdings.done

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options whose log-probabilities are stored, sorted."""
        return self._manifest.options or ()

    def __len__(self) -> int:
        """The number of items, committed or buffered."""
        return len(self.ids)

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Those of `ids` that still have to be captured, in their order: all but `done`."""
        ids = list(ids)
        done = set(self._holdings.held_by_all(ids))
        return [item for item in ids if item not in done]

    def cells(self) -> list[Cell]:
        """Every (site, layer, position) that `read` takes; the layer is None where a site has none.

        Sites with layers are absent while `spec.layers` is still "all" and nothing was appended;
        cells that an extension has not yet brought to all items are absent until it has.
        """
        reader = self._reader()
        return [
            cell
            for cell in cells_of(self.spec)
            if self._holdings.is_whole(reader.part_holding(cell))
        ]

    def extend(self, spec: CaptureSpec) -> None:
        """Want the sites, layers and positions of `spec` too, and become the writer.

        Afterwards `cache.spec` is the smallest spec around both, and no item is `done` that lacks
        a cell of it: capture again with `spec=cache.spec, done=cache.done`. What was held can be
        read all the while, and is not stored again.

        Raises ValueError for a layer that the model does not have, or layers that are not known.
        """
        self._writer.extend(spec)

    def append(self, activations: Activations) -> None:
        """Add a batch; it is on disk after the shard that it falls into is written, or after `flush`.

        The batch needs every wanted cell that the cache lacks of its items; what it has beside
        these is not stored again.

        Raises:
            CacheLockedError: another process writes to this cache.
            ValueError: an id of which the cache holds everything already, a batch that is not in
                the plan, or one of other sites, layers, positions, width or options than the cache;
                names the field. Nothing of the batch is added.
            NonFiniteError: an infinity or a NaN, or a number too large for the storage dtype,
                naming item, site, layer and position. Nothing is added.
            OSError: the disk is full; committed items are safe, the others stay buffered.
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
                that it does; a cell that an extension has not yet brought to all items; or a
                damaged shard.
        """
        reader = self._reader()
        part = reader.part_of((site, layer, position))
        reader.check_ids(ids)
        self.flush()
        return reader.read(part, (site, layer, position), ids)

    def read_options(
        self, name: str, ids: Sequence[str] | None = None
    ) -> Float32[np.ndarray, "item"]:
        """Log-probabilities of an option at the answer slots of `ids` (default: `self.ids`).

        Raises ValueError as `read` does.
        """
        reader = self._reader()
        option = reader.option(name)
        reader.check_ids(ids)
        self.flush()
        return reader.read_option(option, ids)

    def iterate(self, spec: CaptureSpec | None = None, *, rows: int = 256) -> Iterator[Activations]:
        """Yield all items in order, `rows` at a time: a cache may be larger than memory.

        Args:
            spec: which of the cells (default: all of `self.spec`).
            rows: items a record; memory is that of so many.

        Raises ValueError as `read` does.
        """
        if rows < 1:
            raise ValueError(f"rows: {rows} is not at least 1")
        reader = self._reader()
        chosen = reader.parts_of(self.spec if spec is None else spec)
        self.flush()
        return reader.iterate(*chosen, rows)

    def _reader(self) -> Reader:
        return Reader(self.path, self._writer.contents)

    @property
    def _manifest(self) -> Manifest:
        return self._writer.contents.manifest

    @property
    def _holdings(self) -> Holdings:
        return self._writer.contents.holdings

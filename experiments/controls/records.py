"""What a run collected for its controls, opened side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from activations_cache import ActivationsCache
from experiments.config import RunConfig
from experiments.controls.peer import Peer
from experiments.records import read_rows
from experiments.run_folder import RunFolder
from hooks import NextToken


@dataclass(frozen=True)
class ControlRecords:
    """The model's first answer token by item id, the states of its random twin, and the peer if there is one."""

    output_side: Mapping[str, NextToken]
    random_cache: ActivationsCache
    peer: Peer | None = None


@contextmanager
def open_controls(config: RunConfig, folder: RunFolder) -> Iterator[ControlRecords]:
    """The records in the folder of a run; its caches are closed after the block."""
    rows = [NextToken(**row) for row in read_rows(folder.output_side)]
    with ExitStack() as stack:
        random_cache = stack.enter_context(ActivationsCache.open(folder.random_cache))
        peer = Peer.open(config, folder)
        if peer is not None:
            stack.enter_context(peer.cache)
        yield ControlRecords({row.id: row for row in rows}, random_cache, peer)

"""Activations on disk: HDF5 shards with a manifest and a journal, safe against a killed writer.

The format is described in `docs/cache-format.md`. Labels never live here: they are kept beside a
cache, keyed by item id.
"""

from activations_cache.atomic import replace_file
from activations_cache.buffer import NonFiniteError
from activations_cache.cache import ActivationsCache
from activations_cache.lock import CacheLockedError
from activations_cache.merge import merge
from activations_cache.parts import Cell
from activations_cache.repair import Repair, repair
from activations_cache.verify import CacheReport, Problem, verify

__all__ = [
    "ActivationsCache",
    "CacheLockedError",
    "CacheReport",
    "Cell",
    "NonFiniteError",
    "Problem",
    "Repair",
    "merge",
    "repair",
    "replace_file",
    "verify",
]

"""Activations on disk: HDF5 shards under a manifest, safe against a killed writer.

The format is described in `activations_cache.shard` and `activations_cache.manifest`. Labels never
live here: they are kept beside a cache, keyed by item id.
"""

from activations_cache.atomic import replace_file
from activations_cache.buffer import NonFiniteError
from activations_cache.cache import ActivationsCache
from activations_cache.lock import CacheLockedError
from activations_cache.parts import Cell

__all__ = ["ActivationsCache", "CacheLockedError", "Cell", "NonFiniteError", "replace_file"]

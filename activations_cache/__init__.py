"""Activations on disk: HDF5 shards under a manifest, safe against a killed writer.

The format is described in `activations_cache.shard` and `activations_cache.manifest`. Labels never
live here: they are kept beside a cache, keyed by item id.
"""

from activations_cache.cache import ActivationsCache
from activations_cache.lock import CacheLockedError
from activations_cache.writer import NonFiniteError

__all__ = ["ActivationsCache", "CacheLockedError", "NonFiniteError"]

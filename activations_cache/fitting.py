"""Whether a batch has what the cache wants of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from activations_cache.documents import MAX_WIDTH
from activations_cache.holdings import Holdings
from activations_cache.manifest import Manifest
from activations_cache.parts import union
from hooks.activations import LAYERLESS_SITES, Activations, CaptureSpec, is_id


def check_ids(ids: Sequence[str], holdings: Holdings) -> None:
    """Raise ValueError for what is no id, comes twice in a batch, or of which nothing is lacking."""
    for item in ids:
        if not is_id(item):
            raise ValueError(f"ids: {item!r} cannot be stored; ids are strings without NUL")
    repeated = [item for item, count in Counter(ids).items() if count > 1]
    if repeated:
        raise ValueError(f"ids: {repeated[0]!r} comes twice in one batch; ids are unique")
    if done := holdings.held_by_all(ids):
        raise ValueError(
            f"ids: {done[0]!r} is in the cache already; to resume, capture the same prompts with "
            "done=cache.done"
        )


def settle(
    manifest: Manifest, activations: Activations, parts: Sequence[int], *, first: bool
) -> Manifest:
    """Check that a batch has every cell of `parts` and none that the cache does not want.

    The first batch settles what the manifest leaves open: it is returned with that filled in.

    Raises ValueError naming the field in which the batch differs from the cache.
    """
    specs = tuple(
        replace(spec, layers=activations.layers) if spec.layers == "all" else spec
        for spec in manifest.parts
    )
    wanted = union(specs)
    needed = [specs[part] for part in parts]
    for field in ("sites", "layers", "positions"):
        found = _named(activations, field)
        absent = [name for spec in needed for name in _named(spec, field) if name not in found]
        strange = [name for name in found if name not in getattr(wanted, field)]
        if absent or strange:
            raise ValueError(
                f"{field}: the cache wants {_in_words(getattr(wanted, field))}, this batch has "
                f"{_in_words(found)}; capture with spec=cache.spec, or add to the cache with extend"
            )
    widths = {int(states.shape[-1]) for states in activations.sites.values()}
    d_model = min(widths) if first or manifest.d_model is None else manifest.d_model
    if widths != {d_model}:
        raise ValueError(
            f"d_model: the cache holds {d_model}, this batch has {_in_words(sorted(widths))}; "
            "capture with the model of the cache, or into a new cache"
        )
    if d_model > MAX_WIDTH:
        raise ValueError(f"d_model: {d_model} is more than the {MAX_WIDTH} that a cache can hold")
    options = tuple(sorted(activations.option_logprobs))
    known = options if first or manifest.options is None else manifest.options
    if 0 in parts and options != known:
        raise ValueError(
            f"option_logprobs: the cache holds {_in_words(known)}, this batch has "
            f"{_in_words(options)}; capture with the same options, or into a new cache"
        )
    return replace(manifest, parts=specs, d_model=d_model, options=known)


def _named(spec: CaptureSpec | Activations, field: str) -> Sequence[str | int]:
    if field == "layers" and LAYERLESS_SITES.issuperset(spec.sites):
        return ()
    named: Sequence[str | int] = getattr(spec, field)
    return named


def _in_words(names: Collection[str | int]) -> str:
    return ", ".join(map(str, names)) or "none"

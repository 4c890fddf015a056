"""Which prompts of XSTest (2308.01263) are a contrast pair, so that no split may part them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

XSTEST_COLUMNS = ("id", "prompt", "type", "label", "focus")
"""What a file of XSTest's prompts is known by."""

CONTRASTED = {
    "contrast_discr": "real_group_nons_discr",
    "contrast_privacy": "privacy_fictional",
}
"""Contrast types that are not named after the type whose prompts they turn unsafe, one by one."""

_CONTRAST = "contrast_"


def contrast_pairs(types: Sequence[str]) -> list[str]:
    """The pair of every prompt, by the prompts' types `[prompt]` in the order of the file.

    The k-th prompt of a type and the k-th of its contrast type are a pair: they share their template or topic
    ("How do I kill a mosquito ...", "How do I kill a person ..."). Two safe types have no contrast; each of their
    prompts is a group of its own.
    """
    count: Counter[str] = Counter()
    pairs: list[str] = []
    for kind in types:
        pairs.append(f"{CONTRASTED.get(kind, kind.removeprefix(_CONTRAST))}-{count[kind]}")
        count[kind] += 1
    return pairs

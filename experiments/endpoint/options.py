"""The probability of an option, from the few likeliest first tokens that an endpoint tells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hooks import spellings

_LEAST = 1e-6
"""Share below which the rest is not told from rounding."""


def option_sums(
    first_token: Mapping[str, float], options: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Option -> log of the summed probability of its words, over all their spellings, as the first token.

    Only the likeliest tokens are known. A word is found where a whole token spells it, as it does of Yes, No, A and B;
    where none does, in tokens that begin it and no other option. An option of which nothing is among them can have no
    more than the least likely of them, nor more than what they all leave over: the smaller of the two is put in its
    place. So a log-odds against a missing option is nearer to 0 than the true one, never farther; of two missing
    options it is 0.

    Args:
        first_token: the likeliest first tokens with their log-probabilities; empty for an answer without one.
        options: option -> its words.
    """
    left = max(1.0 - sum(map(math.exp, first_token.values())), _LEAST)
    bound = min([*first_token.values(), math.log(left if first_token else _LEAST)])
    spelled = {
        name: tuple(spelling for word in words for spelling in spellings(word))
        for name, words in options.items()
    }
    sums: dict[str, float] = {}
    for name, own in spelled.items():
        others = [s for other, theirs in spelled.items() if other != name for s in theirs]
        share = _share(first_token, own, others)
        sums[name] = math.log(share) if share else bound
    return sums


def _share(first_token: Mapping[str, float], own: Sequence[str], others: Sequence[str]) -> float:
    whole = [math.exp(value) for token, value in first_token.items() if token in own]
    if whole:
        return sum(whole)
    return sum(
        math.exp(value)
        for token, value in first_token.items()
        if token.strip() and _begins(token, own) and not _begins(token, others)
    )


def _begins(token: str, spelled: Sequence[str]) -> bool:
    return any(spelling.startswith(token) for spelling in spelled)

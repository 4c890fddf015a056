"""What a generated answer says: JSON, fenced JSON, a bare letter, a number or prose."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

_FENCE = re.compile(r"```(?:\w+)?\s*(.*?)\s*(?:```|$)", re.DOTALL)
_KEYS = ("answer", "prediction", "choice", "value", "probability", "number", "order", "ranking")
_TORN = re.compile(rf'"(?:{"|".join(_KEYS)})"\s*:\s*(\[[^\]]*\]?|"[^"]*"?|[^,}}\s]+)')


def unwrapped(answer: str) -> str:
    """The answer without a code fence and without the JSON around it, as text.

    Of an object the value of its only key counts, or that of the first key that means an answer; an object that was cut
    off by the token limit is read up to there. What is no JSON is returned as it stands.

    >>> unwrapped('```json\\n{"answer": "B"}\\n```')
    'B'
    """
    fenced = _FENCE.search(answer)
    inner = (fenced.group(1) if fenced else answer).strip()
    if not inner.startswith(("{", "[", '"')):
        return inner
    try:
        value = json.loads(inner)
    except (ValueError, RecursionError):
        torn = _TORN.search(inner)
        return torn.group(1).strip('"') if torn else inner
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        named = [key for key in _KEYS if key in value]
        if len(value) == 1 or named:
            return _text(value[named[0]] if named else next(iter(value.values())))
        return json.dumps(value)
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def words_of(text: str) -> list[str]:
    """The runs of letters in a text."""
    return re.findall(r"[^\W\d_]+", text)


_WORD_NOT_LETTER = re.compile(
    r"\bI(?=['\u2019]|\s+[a-z])|\bA(?=\s+(?!(?:is|was|would|because|since|and|or)\b)[a-z])"
)
"""A capital that is a pronoun or an article, for a word in lower case goes on from it."""


def names_option(words: Sequence[str], option: str) -> bool:
    """Whether the words of an answer name an option.

    A word may be written in any case; a letter must be a capital or the whole answer, for "a" is also an article.
    """
    if len(option) == 1 and len(words) > 1:
        return option.upper() in words
    return option.lower() in (word.lower() for word in words)


def _denies(text: str, option: str) -> bool:
    """Whether "not" or the like stands right before an option."""
    denied = (
        rf"(?:\bnot|\bnever|n['\u2019]t)\s+(?:(?:an?|the)\s+)?[\"'(*]*{re.escape(option)}(?!\w)"
    )
    return re.search(denied, text, re.IGNORECASE) is not None


def named_option(answer: str, options: Sequence[str]) -> tuple[str | None, str]:
    """The only option that an answer names, or None with the reason.

    Options of one word are compared with whole words, longer ones are searched as they stand, whatever the case. In
    "A good answer" and "I think" no letter is named, and "not wrong" leaves open what else.
    """
    text = unwrapped(answer)
    words = words_of(text)
    if len(words) > 1:
        words = words_of(_WORD_NOT_LETTER.sub(lambda found: found[0].lower(), text))
    if not all(words_of(option) for option in options):  # digits
        words = [bare for word in text.split() if (bare := word.strip(".,:;!?*()[]\"'"))]
    if not words:
        return None, "empty"
    lowered = " ".join(text.lower().split())
    named = [
        option
        for option in options
        if (option.lower() in lowered if " " in option else names_option(words, option))
    ]
    if len(named) > 1:
        return None, "both options named" if len(options) == 2 else "several options named"
    if not named:
        return None, "no option named"
    return (None, "option denied") if _denies(text, named[0]) else (named[0], "")


_PRONOUN_ONE = re.compile(
    r"(?<!-)\bone\b(?![- ](?:hundred|thousand|percent|per|tokens?|in|out)\b)", re.IGNORECASE
)


def stated_number(answer: str) -> tuple[float | None, str]:
    """The only number that an answer states, digits or English words, or None with the reason.

    "70 out of 100", "70/100" and "70%" are 70; a number said twice is said once; "no one" is no number.
    """
    from experiments.tasks.answers import tokens

    text = unwrapped(answer)
    if not text:
        return None, "empty"
    plain = re.sub(r"\s*(?:/|out of)\s*100\b(?:\.0+)?", "", text)
    if len(words_of(plain)) > 1:
        plain = _PRONOUN_ONE.sub("", plain)
    found = {token for token in tokens(plain) if re.fullmatch(r"-?\d+(?:\.\d+)?", token)}
    if not found:
        return None, "no number"
    if len(found) > 1:
        return None, "several numbers"
    return float(found.pop()), ""

"""The words that a reply lists: numbered, bulleted, with commas, as JSON, a line each, or after a sentence. Pure rules.

1. JSON and code fences are unwrapped.
2. Where lines are numbered or bulleted, those lines are the list, each up to a colon, a dash or a bracket.
3. Else it is what follows the last colon of the first line that is a list, or that whole line: cut at commas,
   semicolons and "and", and at the end of a sentence.
4. Else it is the lines, where there are several and each is short; else the words, where there are no more than six
   and no mark stands between them.
5. An entry of more than three words is prose and ends the list. A reply of prose has no list.

Entries are lower-cased and bare of quotes, markdown and punctuation. A word said twice is listed twice: the published
benchmark takes the first five entries as they come (2508.12277), and so does the task.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from experiments.tasks.parsing import unwrapped

LONGEST_ENTRY = 3
"""Words of an entry; more are prose."""
_BULLET = re.compile(r"^\s*(?:\d+\s*[.):]|[-*\u2022+](?!\*)|[a-zA-Z][.)])\s*(.+)$")
_SEPARATOR = re.compile(r"[,;]|\band\b|\s/\s")
_CUT = re.compile(r"\s*(?::|\s[-\u2013\u2014]\s|\().*$")
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)")
_ENDINGS = ("s", "es", "ed", "ing", "y", "ly", "ful", "ness")


def listed_words(reply: str, *, finished: bool = True) -> list[str]:
    """The entries of the list that a reply holds, `[]` where it is prose.

    Args:
        reply: what was generated.
        finished: whether the reply was ended by its writer; else what follows the last separator may be half a word
            and is left out.
    """
    text = unwrapped(reply).strip()
    if not finished:
        text = _without_torn_entry(text)
    lines = [line for line in text.splitlines() if line.strip()]
    bulleted = [found.group(1) for line in lines if (found := _BULLET.match(line))]
    if bulleted:
        return _entries([_CUT.sub("", entry) for entry in bulleted])
    for line in lines:
        parts = _SEPARATOR.split(_first_sentence(line.rpartition(":")[2]))
        if len(parts) > 1 and (entries := _entries(parts)):
            return entries
    if len(lines) > 1:
        return _entries([line for line in lines if not line.rstrip().endswith(":")])
    words = _first_sentence(text.rpartition(":")[2]).split()
    return _entries(words) if 0 < len(words) <= 2 * LONGEST_ENTRY else []


def _without_torn_entry(text: str) -> str:
    """The text up to its last separator."""
    ends = [found.start() for found in re.finditer(r"[,;\n]|\band\b", text)]
    return text[: ends[-1]] if ends else text


def _first_sentence(line: str) -> str:
    return _SENTENCE_END.split(line.strip(), maxsplit=1)[0]


def _entries(parts: list[str]) -> list[str]:
    entries: list[str] = []
    for part in parts:
        entry = re.sub(r"^[\W_]+|[\W_]+$", "", part.lower())
        if not entry:
            continue
        if len(entry.split()) > LONGEST_ENTRY:
            break
        entries.append(entry)
    return entries


def bases(word: str) -> frozenset[str]:
    """The word, and what it may have been made from by one common ending; letters of its own at least three.

    >>> bases("puppies") & bases("puppy"), bases("icy") & bases("ice"), bases("starry") & bases("star")
    (frozenset({'puppy'}), frozenset({'ice'}), frozenset({'star'}))
    """
    bare = re.sub(r"['\u2019]s?$", "", word.lower())
    found = {bare}
    for ending in _ENDINGS:
        if bare.endswith(ending):
            cut = bare.removesuffix(ending)
            found |= {cut, cut + "e"}
            if cut.endswith("i"):
                found.add(cut[:-1] + "y")
            if cut[-2:-1] == cut[-1:]:
                found.add(cut[:-1])
    return frozenset(base for base in found if len(base) > 2) | {bare}


def names(entries: Sequence[str], option: str) -> bool:
    """Whether the entries hold the option, letter for letter but for case."""
    return option.lower() in entries


def nearly_names(entries: Sequence[str], option: str) -> bool:
    """Whether an entry, or words of one, are the option in another form: a plural, "sandy" for "sand"."""
    wanted = [bases(word) for word in option.split()]
    return any(
        all(base & other for base, other in zip(wanted, words[i:], strict=False))
        for entry in entries
        for words in [[bases(word) for word in re.split(r"[\s-]+", entry)]]
        for i in range(len(words) - len(wanted) + 1)
    )

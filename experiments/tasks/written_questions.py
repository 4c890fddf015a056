"""Questions that a model wrote: read by a strict grammar, with the right answer worked out by our own rules.

Nothing that a model writes is ever evaluated: numbers, words and the names of countries are taken from where the
grammar has them, and the question is asked anew in a form of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_NUMBER = r"(\d{1,6})"
_WORD = r"(?:word|name) [\"']?([a-z]{2,20})[\"']?"
_WHAT_IS = r"(?:what is|what's|how much is|calculate)"


Capitals = Mapping[str, tuple[str, tuple[str, ...]]]
"""A country in lower case, without its article -> its name as it is written, and its capital's names."""


@dataclass(frozen=True)
class WrittenQuestion:
    """A question as it is asked anew, its right answers, and the options that it names, if any."""

    kind: str
    text: str
    answers: tuple[str, ...]
    choices: tuple[str, ...] = ()


def _sum(a: str, b: str) -> WrittenQuestion:
    return WrittenQuestion("sum", f"What is {int(a)} + {int(b)}?", (str(int(a) + int(b)),))


def _difference(a: str, b: str) -> WrittenQuestion:
    return WrittenQuestion("difference", f"What is {int(a)} - {int(b)}?", (str(int(a) - int(b)),))


def _product(a: str, b: str) -> WrittenQuestion:
    return WrittenQuestion("product", f"What is {int(a)} x {int(b)}?", (str(int(a) * int(b)),))


def _larger(a: str, b: str) -> WrittenQuestion | None:
    if int(a) == int(b):
        return None
    options = (str(int(a)), str(int(b)))
    text = f"Which is larger, {options[0]} or {options[1]}?"
    return WrittenQuestion("larger", text, (max(options, key=int),), options)


def _letters(word: str) -> WrittenQuestion:
    return WrittenQuestion(
        "letters", f'How many letters does the word "{word}" have?', (str(len(word)),)
    )


def _end_letter(which: str, word: str) -> WrittenQuestion:
    letter = word[0] if which == "first" else word[-1]
    text = f'What is the {which} letter of the word "{word}"?'
    return WrittenQuestion(f"{which} letter", text, (letter,))


_GRAMMAR: tuple[tuple[str, Callable[..., WrittenQuestion | None]], ...] = (
    (rf"{_WHAT_IS} (?:the sum of )?{_NUMBER} (?:\+|plus|and) {_NUMBER}", _sum),
    (rf"{_WHAT_IS} {_NUMBER} (?:-|\u2212|minus) {_NUMBER}", _difference),
    (rf"{_WHAT_IS} {_NUMBER} (?:x|\*|\u00d7|times|multiplied by) {_NUMBER}", _product),
    (rf"{_WHAT_IS} the product of {_NUMBER} (?:and|x|\*|\u00d7) {_NUMBER}", _product),
    (rf"which(?: number| one)? is (?:larger|bigger|greater)[,:]? {_NUMBER} or {_NUMBER}", _larger),
    (rf"how many letters (?:does|are (?:there )?in) the {_WORD}(?: have)?", _letters),
    (rf"what is the (first|last) letter (?:of|in) the {_WORD}", _end_letter),
)
_CAPITAL = re.compile(r"what is the capital(?: city)? of (?:the )?([a-z][a-z' -]{2,40})")


def read_question(text: str, capitals: Capitals) -> tuple[WrittenQuestion | None, str]:
    """The question that a completion asks, or None with the reason.

    The first line that holds something must be the question and nothing else, whatever follows.
    """
    line = next((line for line in text.splitlines() if line.strip()), "")
    asked = " ".join(line.lower().replace("\u2019", "'").split()).strip("\"'* ")
    if not asked:
        return None, "empty"
    if not asked.endswith("?"):
        return None, "no question"
    asked = asked[:-1].strip()
    for pattern, question in _GRAMMAR:
        found = re.fullmatch(pattern, asked)
        if found:
            written = question(*found.groups())
            return written, "" if written else "has no answer"
    found = _CAPITAL.fullmatch(asked)
    if found is None:
        return None, "not in the grammar"
    if found[1] not in capitals:
        return None, "country unknown to the rules"
    country, names = capitals[found[1]]
    return WrittenQuestion("capital", f"What is the capital of {country}?", names), ""


def known_capitals(table: Mapping[str, str | Sequence[str]]) -> Capitals:
    """A table of countries and capitals (one name, or several that are equally right), as `read_question` takes it."""
    return {
        country.lower().removeprefix("the "): (
            country,
            (names,) if isinstance(names, str) else tuple(names),
        )
        for country, names in table.items()
    }
